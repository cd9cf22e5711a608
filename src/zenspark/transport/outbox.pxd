from zenspark.wire._bytes cimport append_vle
from zenspark.wire.columns.layout cimport LANE_EXPRESS, LANE_PRIORITY, LANE_RELIABLE
