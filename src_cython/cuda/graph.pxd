"""The C interface of graphs on a device; ``src_cuda/api/graph.h`` documents it."""

from cuda.blackbox cimport bb_matrix, bb_operator, bb_status
from cuda.ranks cimport bb_nccl, bb_ranks
from libc.stdint cimport int32_t, int64_t, uint32_t


cdef extern from "api/graph.h" nogil:
    enum:
        BB_WALK_COLUMNS
        BB_WALK_IMAGES
        BB_BASIS_VECTORS

    ctypedef struct bb_nodes:
        pass

    ctypedef struct bb_walk:
        pass

    ctypedef struct bb_basis:
        pass

    ctypedef struct bb_walk_terms:
        double damping
        const double *v
        double v0
        const double *u
        const int64_t *rows
        const int32_t *owners
        const double *shares
        int64_t entries
        double most, per_entry

    ctypedef struct bb_light_step:
        const int32_t *slots
        int32_t count
        const double *factors
        int32_t mixed
        int32_t into
        int32_t ahead

    ctypedef struct bb_graph_ranks:
        const bb_ranks *calls
        bb_nccl *nccl
        const int64_t *bounds
        int32_t windows

    ctypedef struct bb_transitions:
        bb_matrix *light
        bb_matrix *rest
        bb_matrix *exact

    bb_status bb_nodes_create(const bb_transitions *matrices, const uint32_t *lengths, const double *scale,
                              const uint32_t *places, const uint32_t *all_places, const bb_graph_ranks *ranks,
                              bb_nodes **out)
    void bb_nodes_destroy(bb_nodes *nodes)
    bb_status bb_walk_create(bb_nodes *nodes, int32_t columns, const bb_walk_terms *terms, bb_walk **out)
    void bb_walk_destroy(bb_walk *walk)
    int32_t bb_walk_has_window(const bb_walk *walk)
    int64_t bb_walk_additions(int64_t n, int32_t columns)
    int64_t bb_walk_bytes(int64_t n, int64_t nodes, int32_t columns, int32_t images)
    bb_status bb_walk_place(bb_walk *walk, int32_t slot, const double *start)
    bb_status bb_walk_light(bb_walk *walk, const bb_light_step *step, double *norms)
    bb_status bb_walk_exact(bb_walk *walk, int32_t slot, int32_t into, double *sums)
    bb_status bb_walk_products(bb_walk *walk, const int32_t *images, const int32_t *points, int32_t count,
                               double *products)
    bb_status bb_walk_top(bb_walk *walk, int32_t slot, int32_t column, int64_t count, int64_t *numbers,
                          double *values)
    bb_status bb_walk_get(bb_walk *walk, int32_t slot, int32_t column, double *values)
    bb_status bb_walk_take(bb_walk *walk, bb_walk *source, int32_t slot, const int32_t *columns)

    bb_status bb_basis_create(bb_matrix *matrix, bb_matrix *by_source, const uint32_t *places,
                              const bb_graph_ranks *ranks, bb_basis **out)
    void bb_basis_destroy(bb_basis *basis)
    bb_status bb_basis_lend(bb_basis *basis, double **vector)
    void bb_basis_give(bb_basis *basis, double *vector)
    bb_status bb_basis_fill(bb_basis *basis, double *vector, double value)
    bb_status bb_basis_apply(bb_basis *basis, bb_operator op, const double *source, double *to)
    bb_status bb_basis_orthogonalise(bb_basis *basis, const double *source, const double *const *vectors,
                                     int32_t count, double *to, double *length)
    bb_status bb_basis_combine(bb_basis *basis, const double *const *vectors, const double *factors,
                               int32_t count, double *to)
    bb_status bb_basis_distance(bb_basis *basis, const double *vector, double factor, const double *other,
                                double *length)
    bb_status bb_basis_get(bb_basis *basis, const double *vector, double *values)
