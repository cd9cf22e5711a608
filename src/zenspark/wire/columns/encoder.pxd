from zenspark.wire._bytes cimport copy_bytes, vle_size, write_vle
from zenspark.wire.columns.binary cimport BinaryColumn, value_size, value_start
from zenspark.wire.columns.layout cimport *
from zenspark.wire.columns.memory cimport check_idle, const_pointer8, const_pointer32, const_pointer64, pointer8
