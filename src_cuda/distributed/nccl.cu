#include <algorithm>
#include <memory>
#include <string>

#include "distributed/nccl.h"
#include "runtime/device_memory.h"
#include "runtime/library.h"

using namespace bmrm;

namespace {

// The part of NCCL's interface that is used here; it has not changed since version 2.7.
struct NcclId {
    char bytes[BB_NCCL_ID_BYTES];
};
using NcclComm = void*;

struct NcclCalls {
    int (*get_id)(NcclId*);
    int (*init_rank)(NcclComm*, int, NcclId, int);
    int (*destroy)(NcclComm);
    int (*group_start)();
    int (*group_end)();
    int (*send)(const void*, size_t, int, int, NcclComm, cudaStream_t);
    int (*receive)(void*, size_t, int, int, NcclComm, cudaStream_t);
    const char* (*text)(int);
};

constexpr int kNcclBytes = 0;  // ncclInt8

LoadedCalls<NcclCalls> calls;

void nccl_check(int status, const char* what) {
    if (status) throw Failure(BB_CUDA, std::string(what) + ": " + calls->text(status));
}

}  // namespace

struct bb_nccl {
    NcclComm comm = nullptr;
    int32_t device = 0;
};

namespace bmrm {

void transfer(const bb_nccl& nccl, const std::vector<Transfer>& transfers, cudaStream_t stream) {
    nccl_check(calls->group_start(), "ncclGroupStart");
    for (const Transfer& t : transfers) {
        if (t.sent_bytes)
            nccl_check(calls->send(t.sent, size_t(t.sent_bytes), kNcclBytes, t.rank, nccl.comm, stream),
                       "ncclSend");
        if (t.received_bytes)
            nccl_check(
                calls->receive(t.received, size_t(t.received_bytes), kNcclBytes, t.rank, nccl.comm, stream),
                "ncclRecv");
    }
    nccl_check(calls->group_end(), "ncclGroupEnd");
}

}  // namespace bmrm

extern "C" {

bb_status bb_device_uuid(int32_t device, char uuid[BB_UUID_BYTES]) {
    return guarded([&] {
        cudaDeviceProp found;
        BB_CHECK(cudaGetDeviceProperties(&found, device));
        std::copy_n(found.uuid.bytes, BB_UUID_BYTES, uuid);
    });
}

bb_status bb_nccl_load(const char* library) {
    return guarded([&] {
        calls.load(library, [](const Library& found, NcclCalls& each) {
            found.symbol(each.get_id, "ncclGetUniqueId");
            found.symbol(each.init_rank, "ncclCommInitRank");
            found.symbol(each.destroy, "ncclCommDestroy");
            found.symbol(each.group_start, "ncclGroupStart");
            found.symbol(each.group_end, "ncclGroupEnd");
            found.symbol(each.send, "ncclSend");
            found.symbol(each.receive, "ncclRecv");
            found.symbol(each.text, "ncclGetErrorString");
        });
    });
}

bb_status bb_nccl_id(char id[BB_NCCL_ID_BYTES]) {
    return guarded([&] {
        NcclId fresh;
        nccl_check(calls->get_id(&fresh), "ncclGetUniqueId");
        std::copy_n(fresh.bytes, sizeof fresh.bytes, id);
    });
}

bb_status bb_nccl_join(int32_t device, const char id[BB_NCCL_ID_BYTES], int32_t rank, int32_t size,
                       bb_nccl** out) {
    return guarded([&] {
        const OnDevice scope(device);
        NcclId name;
        std::copy_n(id, sizeof name.bytes, name.bytes);
        auto made = std::make_unique<bb_nccl>();
        made->device = device;
        nccl_check(calls->init_rank(&made->comm, size, name, rank), "ncclCommInitRank");
        *out = made.release();
    });
}

void bb_nccl_leave(bb_nccl* nccl) {
    guarded([&] {
        const OnDevice scope(nccl->device);
        calls->destroy(nccl->comm);
        delete nccl;
    });
}

}  // extern "C"
