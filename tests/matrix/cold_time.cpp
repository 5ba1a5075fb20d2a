// cold_seconds of given measurements, for test_cold_time.py.
#include "runtime/cold_time.h"

extern "C" double cold_seconds_of(const double* both, const double* fill, double alone, int* rounds) {
    int with = 0, without = 0;
    const double found = bmrm::cold_seconds([&] { return both[with++]; }, [&] { return fill[without++]; },
                                            [&] { return alone; });
    *rounds = with == without ? with : -1;
    return found;
}
