"""The loops of this module run on the threads of the process; a module with loops includes this file."""

from bmrm.base._threads cimport run_tasks as _run_tasks

cdef extern from *:
    """
    #include "common/team.h"
    namespace bmrm { RunTasks run_tasks = nullptr; }
    """

cdef extern from "common/team.h" namespace "bmrm" nogil:
    ctypedef void (*_RunTasks "bmrm::RunTasks")(int64_t, int, void (*)(const void*, int64_t, int) noexcept,
                                                 const void*) noexcept
    _RunTasks _tasks_run_by "bmrm::run_tasks"

_tasks_run_by = _run_tasks
