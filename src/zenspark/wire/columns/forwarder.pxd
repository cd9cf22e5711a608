from zenspark.wire._bytes cimport copy_bytes, vle_size, write_vle
from zenspark.wire.columns.layout cimport *
from zenspark.wire.columns.memory cimport const_pointer8, pointer8, pointer32
from zenspark.wire.columns.table cimport PushColumns, check_rows, head_end
