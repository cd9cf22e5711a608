from zenspark.wire._bytes cimport append_vle
from zenspark.wire.columns.layout cimport (
    DEFAULT_PRIORITY, FIRST_EXTENSION, FRAGMENT_ID, FRAME_ID, FRAME_QOS_EXTENSION, LANE_EXPRESS, LANE_PRIORITY,
    LANE_RELIABLE, MORE_FLAG, RELIABLE_FLAG, Z_FLAG
)
