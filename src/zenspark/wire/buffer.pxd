from zenspark.wire._bytes cimport append_vle, read_vle64, vle_size_at
