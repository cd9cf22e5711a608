from zenspark.wire._bytes cimport append_vle, read_vle32, starts_with, vle_size
from zenspark.wire.columns.decoder cimport BatchDecoder
