/* Tells libFuzzer which code of a compiled module was reached: gcc calls this at every basic block and comparison.
 *
 * gcc knows only `trace-pc`, a call without arguments, where libFuzzer expects counters that clang would lay out. So each
 * module has counters of its own, found by the address of the caller relative to the module (the same in every run), and
 * fuzz/harness.py hands them to libFuzzer when all modules are loaded. Comparisons go to libFuzzer as they are: by a jump,
 * not a call, for it tells them apart by the address they return to. The functions are hidden, so that each module calls
 * its own copy. setup.py includes this in each module.
 *
 * With PRELOADED this is a library of its own, for AddressSanitizer: that has empty functions of the same names, which
 * would hide those of libFuzzer from atheris, and with them everything that is interpreted. */

#include <stdint.h>

#ifdef PRELOADED
#define VISIBLE "default"
#else
#define VISIBLE "hidden"
#endif

#define HOOK                                                                                         \
    __attribute__((no_sanitize_coverage, no_sanitize("address", "undefined"), visibility(VISIBLE), \
                   optimize("optimize-sibling-calls"))) void
#define SHOWN __attribute__((visibility("default")))

#define FORWARD(NAME, TYPE, OTHER)                               \
    SHOWN void (*zenspark_##NAME)(TYPE, OTHER);                  \
    HOOK __sanitizer_cov_##NAME(TYPE one, OTHER other) {         \
        if (zenspark_##NAME) zenspark_##NAME(one, other);        \
    }

FORWARD(trace_cmp1, uint8_t, uint8_t)
FORWARD(trace_cmp2, uint16_t, uint16_t)
FORWARD(trace_cmp4, uint32_t, uint32_t)
FORWARD(trace_cmp8, uint64_t, uint64_t)
FORWARD(trace_const_cmp1, uint8_t, uint8_t)
FORWARD(trace_const_cmp2, uint16_t, uint16_t)
FORWARD(trace_const_cmp4, uint32_t, uint32_t)
FORWARD(trace_const_cmp8, uint64_t, uint64_t)
FORWARD(trace_switch, uint64_t, void *)

#ifdef PRELOADED

FORWARD(8bit_counters_init, void *, void *)
FORWARD(pcs_init, void *, void *)

#else

#define COUNTERS (1 << 16)

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

SHOWN uint8_t zenspark_coverage_counters[COUNTERS];
SHOWN const uintptr_t zenspark_coverage_size = COUNTERS;

HOOK __sanitizer_cov_trace_pc(void) {
    uintptr_t offset = (uintptr_t)__builtin_return_address(0) - (uintptr_t)__ehdr_start;
    zenspark_coverage_counters[(uint32_t)(offset * 2654435761u) >> 16]++;
}

/* Comparisons of floats are of no use to libFuzzer. */
HOOK __sanitizer_cov_trace_cmpf(float one, float other) { (void)one, (void)other; }
HOOK __sanitizer_cov_trace_cmpd(double one, double other) { (void)one, (void)other; }

#endif
