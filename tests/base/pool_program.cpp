// Loops on the pool of threads: of several callers, inside one another, and in a child of fork(). The exit
// status is 0 if every task ran once, by a member of the team.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/pool.h"

namespace bmrm {
RunTasks run_tasks = [](std::int64_t count, int threads, RunTask run, const void* context) {
    Pool::get().run(count, threads, run, context);
};
}  // namespace bmrm

namespace {

bool loops_are_right(int loops, int tasks, int threads) {
    bool right = true;
    for (int k = 0; k < loops; ++k) {
        std::vector<int> runs(tasks, 0), inside(tasks, 0), by(threads, 0);
        bmrm::for_each_task_of_member(tasks, threads, [&](std::int64_t i, int member) {
            ++runs[i];
            ++by[member];
            if (k % 16 == 0) bmrm::for_each_task(3, threads, [&](std::int64_t) { ++inside[i]; });
        });
        int total = 0;
        for (const int some : by) total += some;
        right &= total == tasks;
        for (int i = 0; i < tasks; ++i) right &= runs[i] == 1 && inside[i] == (k % 16 == 0 ? 3 : 0);
        if (k % 50 == 0) usleep(k % 200);  // helpers fall asleep, or just not
    }
    return right;
}

}  // namespace

int main() {
    std::atomic<bool> right{loops_are_right(1000, 40, 4)};
    std::vector<std::thread> callers;
    for (int k = 0; k < 4; ++k)
        callers.emplace_back([&right, k] {
            if (!loops_are_right(500, 10 + 7 * k, 2 + k)) right = false;
        });
    for (std::thread& caller : callers) caller.join();
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(loops_are_right(300, 33, 3) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return right && status == 0 ? 0 : 1;
}
