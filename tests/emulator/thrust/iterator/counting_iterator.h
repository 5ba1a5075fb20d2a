// The numbers from one on.
#pragma once

namespace thrust {

template <class T>
struct counting_iterator {
    T first;
    explicit counting_iterator(T first) : first(first) {}
    T operator[](long long k) const { return T(first + k); }
};

}  // namespace thrust
