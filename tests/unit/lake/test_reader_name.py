from zenspark.lake.reader_name import reader_name


def test_a_lake_has_one_name_and_another_lake_another() -> None:
    assert reader_name("/data/lake") == reader_name("/data/lake")
    assert reader_name("/data/lake") != reader_name("/data/lake2")
    assert reader_name("/data/lake").startswith("lake-")
