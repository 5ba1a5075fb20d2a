// How many threads a parallel loop gets.
//
// GNU OpenMP keeps the threads of a loop for the next one.  A child of fork() has none of them, and its first
// loop by several threads would wait for them without end.  What of it was used before the fork is unknown
// here, since other libraries use it too; so a child has one thread, and its answers are the same.
#pragma once

#include <pthread.h>

namespace bmrm {

inline bool forked = false;
inline const int watches_forks = pthread_atfork(nullptr, nullptr, [] { forked = true; });

/// Threads of a loop, of the `threads` allowed.
inline int team_of(int threads) { return forked ? 1 : threads; }

}  // namespace bmrm
