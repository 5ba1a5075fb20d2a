// How the loops of a compiled module reach the threads of the process.
//
// All modules share one pool of threads (`common/pool.h`), which `bmrm.base._threads` has. A module with
// loops includes `common/pool.pxi`, which defines `run_tasks` and sets it when the module is imported;
// without it, the module does not link.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

namespace bmrm {

/// A task of a loop: its number, and the member of the team that runs it, 0 for the caller.
using RunTask = void (*)(const void* context, std::int64_t task, int member);

/// Runs all tasks of a loop: their number, the maximum size of the team, the task and its context.
using RunTasks = void (*)(std::int64_t count, int threads, RunTask run, const void* context);

/// The threads of the process.
extern RunTasks run_tasks;

/// Runs task(i, member) for i < n on at most `threads` threads, lowest first; a member, less than `threads`,
/// runs one task at a time. Tasks write disjoint results and do not throw. A loop inside a task runs there.
template <class Task>
void for_each_task_of_member(std::int64_t n, int threads, const Task& task) {
    if (n < 2 || threads < 2) {
        for (std::int64_t i = 0; i < n; ++i) task(i, 0);
        return;
    }
    const auto run = [](const void* context, std::int64_t i, int member) {
        (*static_cast<const Task*>(context))(i, member);
    };
    run_tasks(n, threads, run, &task);
}

/// The same for tasks that do not ask who runs them.
template <class Task>
void for_each_task(std::int64_t n, int threads, const Task& task) {
    for_each_task_of_member(n, threads, [&](std::int64_t i, int) { task(i); });
}

/// The same for tasks that may run out of memory, task(i, member): the others then end, and this throws.
template <class Task>
void for_each_allocating_task(std::int64_t n, int threads, const Task& task) {
    std::atomic<bool> full{false};
    for_each_task_of_member(n, threads, [&](std::int64_t i, int member) {
        if (full) return;
        try {
            task(i, member);
        } catch (const std::bad_alloc&) {
            full = true;
        }
    });
    if (full) throw std::bad_alloc();
}

}  // namespace bmrm
