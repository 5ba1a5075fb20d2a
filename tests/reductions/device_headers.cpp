// Kernels that call what the headers of src_common/device have, to run on the CPU by tests/emulator/warps.h.
#include "device/arithmetic.cuh"
#include "device/bins.cuh"
#include "device/failures.cuh"
#include "device/parts.cuh"
#include "device/products.cuh"
#include "device/rows.cuh"

using namespace bmrm;

static const void* from;
static void* to;
static const long long* options;

template <class A>
const A* input() {
    return static_cast<const A*>(from);
}
template <class A>
A* output() {
    return static_cast<A*>(to);
}

template <int WIDEST = 16, int NARROWEST = WIDEST>
void sum_lanes() {
    if (options[0] == WIDEST && options[1] == NARROWEST)
        output<double>()[threadIdx.x] = over_warp<Sum, WIDEST, NARROWEST>(input<double>()[threadIdx.x]);
    else if constexpr (NARROWEST > 1)
        sum_lanes<WIDEST, NARROWEST / 2>();
    else if constexpr (WIDEST > 1)
        sum_lanes<WIDEST / 2>();
}

template <class Op, class A, int N = 32>
void butterfly() {
    if (options[0] == N) {
        A mine[N];
        for (int i = 0; i < N; i++) mine[i] = input<A>()[i * 32 + threadIdx.x];
        over_warp_each<Op>(mine, threadIdx.x);
        output<A>()[threadIdx.x] = mine[0];
    } else if constexpr (N > 1) {
        butterfly<Op, A, N / 2>();
    }
}

template <class Op, int WIDTH = 32>
void best() {
    if (options[0] == WIDTH) {
        double value = input<double>()[threadIdx.x];
        whole number = whole(input<double>()[32 + threadIdx.x]);
        int lane = threadIdx.x;
        best_of_warp<Op, WIDTH>(value, number, lane);
        output<double>()[threadIdx.x] = value;
        output<double>()[32 + threadIdx.x] = double(number);
        output<double>()[64 + threadIdx.x] = lane;
    } else if constexpr (WIDTH > 1) {
        best<Op, WIDTH / 2>();
    }
}

// Two blocks of 8 rows by 8 columns of A, then B: (8, 8).
void multiply() {
    const double *a = input<double>(), *b = a + 128;
    const int g = fragment_row(), t = fragment_step();
    double upper[2], lower[2], right[2], sums[3][2] = {};
    for (int half = 0; half < 2; half++) {
        upper[half] = a[g * 8 + 4 * half + t];
        lower[half] = a[64 + g * 8 + 4 * half + t];
        right[half] = b[(4 * half + t) * 8 + g];
    }
    multiply_16x8x8(sums[0], sums[1], upper, lower, right);
    multiply_8x8x8(sums[2], lower, right);
    for (int block = 0; block < 3; block++)
        for (int k = 0; k < 2; k++) output<double>()[block * 64 + g * 8 + 2 * t + k] = sums[block][k];
}

void add_steps() { output<double>()[threadIdx.x] = sum_steps(input<double>()[threadIdx.x]); }

// Each of four warps adds a block of sums and a sum of columns.
void join() {
    const double* mine = input<double>() + threadIdx.x * 3;
    const double sums[1][2] = {{mine[0], mine[1]}}, totals[1] = {mine[2]};
    add_warps<4>([&](bool is_first) {
        add_numbers(output<double>() + threadIdx.x % 32, sums, is_first);
        add_numbers(output<double>() + 64 + threadIdx.x % 32, totals, is_first);
    });
}

// An index of each lane, negative if it does not take part; then a value of each.
template <class Op, class A>
void bins() {
    const whole index = input<whole>()[threadIdx.x];
    const A value = reinterpret_cast<const A*>(input<whole>() + 32)[threadIdx.x];
    const int rank = rank_of(unsigned(index), index >= 0, threadIdx.x);
    combine_bins<Op>(output<A>(), index, value, rank);
    combine_same<Op>(output<A>() + 32, value, threadIdx.x);
}

void two_places() {
    if (threadIdx.x == 0)
        add_two(output<double>(), int(options[0]), int(options[1]), input<double>()[0], input<double>()[1]);
}

template <class V, int PIECE>
void row() {
    double x[12];
    const char* at = static_cast<const char*>(from);
    read_row<V, PIECE, 12>(at, options[0], options[1], x);
    for (int f = 0; f < 12; f++) output<double>()[f] = x[f];
}

template <class V, int PIECE, int APART, bool WHOLE>
void columns() {
    V x[4];
    read_columns<APART, WHOLE, PIECE>(static_cast<const char*>(from), options[0], options[1], options[2],
                                      options[3], x);
    for (int f = 0; f < 4; f++) output<double>()[f] = double(x[f]);
}

template <class V>
void neighbours() {
    V x[8];
    read_neighbours(input<V>(), x);
    for (int f = 0; f < 8; f++) output<double>()[f] = double(x[f]);
}

// Options: elements, parts, the number of blocks of elements before.
template <class Op, class A>
void parts() {
    static double held[32][33];
    const A neutral = reinterpret_cast<const A*>(options)[3];
    combine_parts<Op, A>(input<A>(), output<A>(), options[0], options[1], neutral, unsigned(options[2]),
                         (A(*)[33])held);
}

// Parts of values, then their rows; the output has values, rows and the parts that are chosen.
void best_parts() {
    static double held[32][33];
    static whole chosen[32][33];
    const whole count = options[0], size = count * options[1];
    const whole* rows = reinterpret_cast<const whole*>(input<double>() + size);
    combine_best<Least, double>(input<double>(), rows, output<double>(), output<whole>() + count, count,
                                options[1], INF, unsigned(options[2]), held, chosen,
                                [&](whole q, whole part) { output<whole>()[2 * count + q] = part; });
}

struct Table {
    static constexpr int SITES = 100;
    __device__ whole* error() const { return output<whole>(); }
};

// Of each thread: an index, the size, and a divisor.
void failures() {
    const whole* mine = input<whole>() + 3 * threadIdx.x;
    const bool used = threadIdx.x != 2;
    output<whole>()[1 + threadIdx.x] = inside(mine[0], mine[1], used, Table(), threadIdx.x, 7);
    output<whole>()[1 + blockDim.x + threadIdx.x] = divisor(mine[2], used, Table(), threadIdx.x, 8);
}

void whole_numbers() {
    const whole a = input<whole>()[0], b = input<whole>()[1];
    const whole found[] = {wrap_add(a, b),          wrap_sub(a, b),          wrap_mul(a, b), next_count(a, b),
                           b ? whole_div(a, b) : 0, b ? whole_mod(a, b) : 0, absolute(a)};
    memcpy(to, found, sizeof found);
}

void real_numbers() {
    const double a = input<double>()[0], b = input<double>()[1];
    output<double>()[0] = real_div(a, b);
    output<double>()[1] = real_mod(a, b);
    output<whole>()[2] = to_whole(a);
}

void tried() {
    const float *a = input<float>(), *b = a + options[0];
    float *found = output<float>(), *unusual = found + 3 * options[0];
    for (long long i = 0; i < options[0]; i++) {
        bool divides = false, roots = false;
        found[i] = quotient(a[i], Divisor(b[i]), divides);
        found[options[0] + i] = root(a[i], roots);
        found[2 * options[0] + i] = divided(a[i], b[i]);
        unusual[i] = divides;
        unusual[options[0] + i] = roots;
    }
}

static const struct {
    const char* name;
    void (*kernel)();
} kernels[] = {
    {"sum_lanes", sum_lanes<>},
    {"butterfly Sum", butterfly<Sum, double>},
    {"butterfly Least", butterfly<Least, double>},
    {"butterfly Greatest", butterfly<Greatest, double>},
    {"butterfly Or", butterfly<Or, whole>},
    {"butterfly And", butterfly<And, whole>},
    {"best Least", best<Least>},
    {"best Greatest", best<Greatest>},
    {"multiply", multiply},
    {"add_steps", add_steps},
    {"join", join},
    {"bins Sum", bins<Sum, double>},
    {"bins Least", bins<Least, double>},
    {"bins And", bins<And, whole>},
    {"two_places", two_places},
    {"row float 1", row<float, 1>},
    {"row float 4", row<float, 4>},
    {"row double 2", row<double, 2>},
    {"row short 1", row<short, 1>},
    {"columns float 4", columns<float, 4, 1, true>},
    {"columns float 2", columns<float, 2, 1, true>},
    {"columns double 2", columns<double, 2, 1, true>},
    {"columns double 1", columns<double, 1, 8, false>},
    {"columns short 1", columns<short, 1, 8, true>},
    {"neighbours float", neighbours<float>},
    {"neighbours double", neighbours<double>},
    {"parts Sum", parts<Sum, double>},
    {"parts Greatest", parts<Greatest, double>},
    {"parts Or", parts<Or, whole>},
    {"best_parts", best_parts},
    {"failures", failures},
    {"whole_numbers", whole_numbers},
    {"real_numbers", real_numbers},
    {"tried", tried},
};

// Returns whether the kernel came to its end.
extern "C" __attribute__((visibility("default"))) int run_kernel(const char* name, int blocks, int threads,
                                                                 const void* given, void* found,
                                                                 const long long* words) {
    from = given, to = found, options = words;
    for (const auto& each : kernels)
        if (!strcmp(each.name, name))
            return emulator::run(unsigned(blocks), unsigned(threads), 0, false, each.kernel);
    return 0;
}
