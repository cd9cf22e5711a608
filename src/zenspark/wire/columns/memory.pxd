# The pointers into memory that the modules of this package share.
cdef unsigned char* pointer8(object memory) except? NULL
cdef unsigned int* pointer32(object memory) except? NULL
cdef unsigned long long* pointer64(object memory) except? NULL
cdef const unsigned char* const_pointer8(object memory) except? NULL
cdef const unsigned int* const_pointer32(object memory) except? NULL
cdef const unsigned long long* const_pointer64(object memory) except? NULL
cpdef int check_idle(bint busy) except -1
