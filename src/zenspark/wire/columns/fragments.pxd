from zenspark.wire._bytes cimport move_bytes, read_vle32, size_of_vle32, value_of_vle32, vle_size_at
from zenspark.wire.columns.decoder cimport BatchDecoder, begin_decoding, decode_rows
from zenspark.wire.columns.layout cimport *
from zenspark.wire.columns.memory cimport pointer8
from zenspark.wire.columns.table cimport PushColumns
