from zenspark.wire._bytes cimport append_vle, read_vle32, size_of_vle32, starts_with, value_of_vle32, vle_size
from zenspark.wire.columns.decoder cimport BatchDecoder
