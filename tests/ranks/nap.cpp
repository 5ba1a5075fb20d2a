// A rank that waits in MPI gives its turn away again and again, also while MPI starts. Here it naps instead:
// the tests run side by side, and each needs the cores. Loaded before the C library (mpi.py).

#include <time.h>

extern "C" int sched_yield() {
    const timespec time{0, 50000};
    nanosleep(&time, nullptr);
    return 0;
}
