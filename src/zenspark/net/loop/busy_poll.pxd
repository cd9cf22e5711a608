# The busy-polling loop in C; on systems without epoll it returns at once.
cdef extern from *:
    """
    #ifdef __linux__
    #include <sched.h>
    #include <sys/epoll.h>
    #include <time.h>

    static double seconds_now(void) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return at.tv_sec + at.tv_nsec * 1e-9;
    }

    static int busy_poll_until(int descriptor, double seconds) {
        struct epoll_event event;
        double until = seconds_now() + seconds;
        int events = 0;
        while (events == 0 && seconds_now() < until) {
            sched_yield();
            events = epoll_wait(descriptor, &event, 1, 0);
        }
        return events > 0;
    }
    #else
    static int busy_poll_until(int descriptor, double seconds) {
        return 0;
    }
    #endif
    """
    int busy_poll_until(int descriptor, double seconds) nogil
