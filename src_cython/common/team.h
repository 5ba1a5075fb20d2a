// The number of threads of a parallel loop.
//
// GNU OpenMP keeps the threads of a loop for the next one. A child of fork() has none of them, and its first
// loop with several threads would wait for them forever. Whether OpenMP was used before the fork is unknown
// here, since other libraries use it too. So a child runs on one thread, with the same results.
#pragma once

#include <pthread.h>

namespace bmrm {

inline bool forked = false;
inline const int watches_forks = pthread_atfork(nullptr, nullptr, [] { forked = true; });

/// The number of threads of a loop that may use `threads`.
inline int team_of(int threads) { return forked ? 1 : threads; }

}  // namespace bmrm
