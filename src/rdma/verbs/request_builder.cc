#include "rdma/verbs/request_builder.h"

#include <utility>

#include "rdma/verbs/exposed_regions.h"

namespace penstock::rdma::verbs {
namespace {

// Unregistered memory below this size is copied to registered memory: a registration costs a system call and pins
// pages, which is more than such a copy costs.
constexpr size_t kCopyLimit = 16 << 10;

void Append(std::vector<ibv_sge>& pieces, ConstBytes bytes, uint32_t key) {
  pieces.push_back({reinterpret_cast<uintptr_t>(bytes.data()), static_cast<uint32_t>(bytes.size()), key});
}

}  // namespace

bool RequestBuilder::Build(WorkRequest& work, ibv_send_wr& request, std::vector<ibv_sge>& pieces) {
  request = {};
  request.opcode = work.opcode;
  if (work.solicited) request.send_flags |= IBV_SEND_SOLICITED;
  switch (work.opcode) {
    case IBV_WR_BIND_MW:
      return BuildBinding(work, request);
    case IBV_WR_LOCAL_INV:
      request.invalidate_rkey = work.region->stag.value();
      return true;
    case IBV_WR_SEND_WITH_INV:
      request.invalidate_rkey = work.remote.stag.value();
      break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      request.wr.rdma.rkey = work.remote.stag.value();
      request.wr.rdma.remote_addr = work.remote.offset;
      break;
    default:
      break;
  }
  if (!(work.operation == Operation::kRead ? AddSink(work, pieces) : AddPieces(work, pieces))) return false;
  size_t size = 0;
  for (const ibv_sge& piece : pieces) size += piece.length;
  if (work.operation != Operation::kRead && size > 0 && size <= max_inline_) request.send_flags |= IBV_SEND_INLINE;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  return true;
}

bool RequestBuilder::BuildBinding(WorkRequest& work, ibv_send_wr& request) {
  ibv_mr* registration = WindowsAreBounds(traits_) ? registrar_.Find(work.local) : nullptr;
  if (!registration) {
    registration = registrar_.Register(work.local, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    if (!registration) return false;
    work.region->registration = registration;
  }
  request.bind_mw.mw = work.region->window;
  request.bind_mw.rkey = work.region->stag.value();
  request.bind_mw.bind_info = {registration, work.region->offset, work.region->length,
                               static_cast<unsigned>(RemoteAccessFlag(work.access))};
  return true;
}

void RequestBuilder::CopyIntoOnePiece(Gather& gather, size_t size) {
  BufferRef whole = buffers_.Allocate(size);
  std::byte* to = whole->data();
  for (const Data& data : gather) {
    CopyBytes({to, data.size()}, data.bytes());
    to += data.size();
  }
  const ConstBytes bytes = whole->bytes().first(size);
  gather.clear();
  gather.push_back(Slice(std::move(whole), bytes));
}

// The scatter/gather list of a Send or Write.
bool RequestBuilder::AddPieces(WorkRequest& work, std::vector<ibv_sge>& pieces) {
  std::erase_if(work.gather, [](const Data& data) { return data.empty(); });
  const size_t size = SizeOf(work.gather);
  if (work.gather.size() > traits_.max_sge) CopyIntoOnePiece(work.gather, size);
  const bool inlined = size <= max_inline_;
  for (Data& data : work.gather) {
    uint32_t key = 0;
    if (!inlined) {
      key = LocalKeyOf(work, data);
      if (key == 0) return false;
    }
    Append(pieces, data.bytes(), key);
  }
  return true;
}

// Returns the key of registered memory with the octets of `data`, which may become a copy. Returns 0 if memory cannot
// be registered.
uint32_t RequestBuilder::LocalKeyOf(WorkRequest& work, Data& data) {
  if (const ibv_mr* registration = registrar_.Find(data.bytes())) return registration->lkey;
  if (data.size() <= kCopyLimit) {
    BufferRef copy = buffers_.Allocate(data.size());
    const Bytes bytes = copy->bytes().first(data.size());
    CopyBytes(bytes, data.bytes());
    data = Slice(std::move(copy), bytes);
    const ibv_mr* registration = registrar_.Find(bytes);
    return registration ? registration->lkey : 0;
  }
  ibv_mr* registration = registrar_.Register(data.bytes(), 0);
  if (!registration) return 0;
  work.registrations.push_back(registration);
  return registration->lkey;
}

// The scatter/gather list of a Read.
bool RequestBuilder::AddSink(WorkRequest& work, std::vector<ibv_sge>& pieces) {
  if (work.local.empty()) return true;
  uint32_t key = 0;
  const bool exposed = ReadSinkIsExposed(traits_);
  if (const ibv_mr* registration = exposed ? nullptr : registrar_.Find(work.local)) {
    key = registration->lkey;
  } else {
    ibv_mr* own = registrar_.Register(work.local, IBV_ACCESS_LOCAL_WRITE | (exposed ? IBV_ACCESS_REMOTE_WRITE : 0));
    if (!own) return false;
    work.registrations.push_back(own);
    key = own->lkey;
  }
  Append(pieces, work.local, key);
  return true;
}

}  // namespace penstock::rdma::verbs
