from zenspark.lake.reader_name import reader_name


def test_reader_name_is_stable_and_unique_per_lake() -> None:
    assert reader_name("/data/lake") == reader_name("/data/lake")
    assert reader_name("/data/lake") != reader_name("/data/lake2")
    assert reader_name("/data/lake").startswith("lake-")
