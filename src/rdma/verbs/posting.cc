// The data path of a Connection, outwards: from what was posted to work requests.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/result.h"
#include "rdma/verbs/connection.h"
#include "rdma/verbs/set_up_errors.h"

namespace penstock::rdma::verbs {
namespace {

// In one call to the adapter.
constexpr size_t kBatch = 64;
// Of memory that is registered nowhere, less than this is copied to where it is: a system call and the pinning of pages cost
// more than that.
constexpr size_t kCopyLimit = 16 << 10;

size_t SizeOf(const Gather& gather) {
  size_t size = 0;
  for (const Data& data : gather) size += data.size();
  return size;
}

void Append(std::vector<ibv_sge>& pieces, ConstBytes bytes, uint32_t key) {
  pieces.push_back({reinterpret_cast<uintptr_t>(bytes.data()), static_cast<uint32_t>(bytes.size()), key});
}

}  // namespace

void Connection::PostSend(SendRequest request) {
  if (!Accepts(Operation::kSend, request.context)) return;
  if (SizeOf(request.gather) > limits_.max_message) {
    return FailLocally(Operation::kSend, request.context, "a Send that is too long");
  }
  Work work;
  work.context = request.context;
  work.opcode = request.invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
  work.remote.stag = request.invalidate.value_or(Stag());
  work.solicited = request.solicited;
  work.gather = std::move(request.gather);
  Post(std::move(work));
}

void Connection::PostWrite(WriteRequest request) {
  if (!Accepts(Operation::kWrite, request.context)) return;
  if (SizeOf(request.gather) > std::min(limits_.max_transfer, request.remote.length)) {
    return FailLocally(Operation::kWrite, request.context, "an RDMA Write that is too long");
  }
  Work work;
  work.operation = Operation::kWrite;
  work.context = request.context;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.gather = std::move(request.gather);
  work.remote = request.remote;
  std::erase_if(work.gather, [](const Data& data) { return data.empty(); });
  if (work.gather.size() > traits_.max_sge) return Splinter(std::move(work));
  Post(std::move(work));
}

// More pieces than one request takes: several, of which the last one completes.
void Connection::Splinter(Work work) {
  const Gather all = std::move(work.gather);
  uint64_t offset = work.remote.offset;
  for (size_t at = 0; at < all.size(); at += traits_.max_sge) {
    const size_t end = std::min(all.size(), at + traits_.max_sge);
    Work part;
    part.operation = Operation::kWrite;
    part.context = work.context;
    part.silent = end < all.size();
    part.opcode = IBV_WR_RDMA_WRITE;
    part.gather.assign(all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(end));
    part.remote = {work.remote.stag, static_cast<uint32_t>(SizeOf(part.gather)), offset};
    offset += part.remote.length;
    Post(std::move(part));
  }
}

void Connection::PostRead(ReadRequest request) {
  if (!Accepts(Operation::kRead, request.context)) return;
  if (ord_ == 0) return FailLocally(Operation::kRead, request.context, "an RDMA Read with ORD 0");
  if (request.remote.length > limits_.max_transfer || request.local.size() != request.remote.length) {
    return FailLocally(Operation::kRead, request.context, "an RDMA Read of the wrong length");
  }
  Work work;
  work.operation = Operation::kRead;
  work.context = request.context;
  work.opcode = IBV_WR_RDMA_READ;
  work.local = request.local;
  work.owner = std::move(request.owner);
  work.remote = request.remote;
  Post(std::move(work));
}

// ---- to the adapter ----

void Connection::Post(Work work) {
  pending_.push_back(std::move(work));
  Touch();
}

void Connection::PostDue() {
  // Receives first: whoever reads an answer may send at once.
  while (state_ != State::kLost && !fate_ && receive_queue_.due() > 0 && PostReceives()) {
  }
  while (state_ != State::kLost && !fate_ && PostWorks()) {
  }
}

bool Connection::PostReceives() {
  const size_t count = std::min(receive_queue_.due(), kBatch);
  ibv_recv_wr requests[kBatch] = {};
  ibv_sge pieces[kBatch] = {};
  for (size_t i = 0; i < count; ++i) {
    const ReceiveQueue::Ticket ticket = receive_queue_.Post();
    const Bytes buffer = ticket.receive->buffer->bytes();
    const ibv_mr* registration = domain_->Find(buffer);
    if (!registration) {
      FailToRegister();
      return false;
    }
    pieces[i] = {reinterpret_cast<uintptr_t>(buffer.data()), static_cast<uint32_t>(buffer.size()), registration->lkey};
    requests[i].wr_id = ticket.number << 1 | 1;
    requests[i].sg_list = &pieces[i];
    requests[i].num_sge = 1;
    requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  if (const int error = ::ibv_post_recv(id_->get()->qp, requests, &bad)) {
    Fail(DisconnectReason::kFault, "cannot post receives: " + DescribeErrno(error));
    return false;
  }
  return true;
}

// The next request that may go: Reads that had to wait first, then what was posted, but for Reads that must wait.
Work* Connection::NextWork(Work& taken) {
  if (!delayed_reads_.empty() && reads_ < ord_) {
    taken = delayed_reads_.pop_front();
    return &taken;
  }
  while (!pending_.empty()) {
    taken = pending_.pop_front();
    if (taken.operation != Operation::kRead || reads_ < ord_) return &taken;
    delayed_reads_.push_back(std::move(taken));
  }
  return nullptr;
}

// One chain of requests; false where there is nothing (more) to post.
bool Connection::PostWorks() {
  const size_t count = std::min<size_t>(kBatch, send_queue_.room());
  std::vector<Work> works;
  Work taken;
  while (works.size() < count && NextWork(taken)) {
    if (taken.operation == Operation::kRead) ++reads_;
    works.push_back(std::move(taken));
    taken = Work();
  }
  if (works.empty()) return false;
  std::vector<ibv_send_wr> requests(works.size());
  std::vector<std::vector<ibv_sge>> pieces(works.size());
  bool prepared = true;
  for (size_t i = 0; i < works.size(); ++i) {
    const bool last = i + 1 == works.size();
    prepared = prepared && Prepare(works[i], requests[i], pieces[i]);
    const bool read = works[i].operation == Operation::kRead;
    const SendQueue::Ticket ticket =
        send_queue_.Post(read ? SendQueue::Signal::kAlways : SendQueue::Signal::kWhenDue, last);
    requests[i].wr_id = ticket.number << 1;
    if (ticket.signalled) requests[i].send_flags |= IBV_SEND_SIGNALED;
    requests[i].next = last ? nullptr : &requests[i + 1];
    posted_.push_back(std::move(works[i]));
  }
  if (!prepared) {
    FailToRegister();
    return false;
  }
  ibv_send_wr* bad = nullptr;
  if (const int error = ::ibv_post_send(id_->get()->qp, requests.data(), &bad)) {
    Fail(DisconnectReason::kFault, "cannot post: " + DescribeErrno(error < 0 ? -error : error));
    return false;
  }
  return true;
}

bool Connection::Prepare(Work& work, ibv_send_wr& request, std::vector<ibv_sge>& pieces) {
  request = {};
  request.opcode = work.opcode;
  if (work.solicited) request.send_flags |= IBV_SEND_SOLICITED;
  switch (work.opcode) {
    case IBV_WR_BIND_MW: {
      ibv_mr* registration = WindowsAreBounds(traits_) ? domain_->Find(work.local) : nullptr;
      if (!registration) {
        registration = domain_->Register(work.local, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
        if (!registration) return false;
        work.exposed->registration = registration;
      }
      request.bind_mw.mw = work.exposed->window;
      request.bind_mw.rkey = work.exposed->stag.value();
      request.bind_mw.bind_info = {registration, work.exposed->offset, work.exposed->length,
                                   static_cast<unsigned>(RemoteAccess(work.access))};
      return true;
    }
    case IBV_WR_LOCAL_INV:
      request.invalidate_rkey = work.exposed->stag.value();
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

// Of a Send or Write.
bool Connection::AddPieces(Work& work, std::vector<ibv_sge>& pieces) {
  std::erase_if(work.gather, [](const Data& data) { return data.empty(); });
  const size_t size = SizeOf(work.gather);
  if (work.gather.size() > traits_.max_sge) {
    BufferRef whole = buffers_.Allocate(size);
    std::byte* to = whole->data();
    for (const Data& data : work.gather) {
      CopyBytes({to, data.size()}, data.bytes());
      to += data.size();
    }
    const ConstBytes bytes = whole->bytes().first(size);
    work.gather.clear();
    work.gather.push_back(Slice(std::move(whole), bytes));
  }
  const bool inlined = size <= max_inline_;
  for (Data& data : work.gather) {
    uint32_t key = 0;
    if (!inlined) {
      key = KeyOf(work, data);
      if (key == 0) return false;
    }
    Append(pieces, data.bytes(), key);
  }
  return true;
}

// The key of registered memory with the octets of `data`; 0 where there is none to be had.
uint32_t Connection::KeyOf(Work& work, Data& data) {
  if (const ibv_mr* registration = domain_->Find(data.bytes())) return registration->lkey;
  if (data.size() <= kCopyLimit) {
    BufferRef copy = buffers_.Allocate(data.size());
    const Bytes bytes = copy->bytes().first(data.size());
    CopyBytes(bytes, data.bytes());
    data = Slice(std::move(copy), bytes);
    const ibv_mr* registration = domain_->Find(bytes);
    return registration ? registration->lkey : 0;
  }
  ibv_mr* registration = domain_->Register(data.bytes(), 0);
  if (!registration) return 0;
  work.registrations.push_back(registration);
  return registration->lkey;
}

bool Connection::AddSink(Work& work, std::vector<ibv_sge>& pieces) {
  if (work.local.empty()) return true;
  uint32_t key = 0;
  const bool exposed = ReadSinkIsExposed(traits_);
  if (const ibv_mr* registration = exposed ? nullptr : domain_->Find(work.local)) {
    key = registration->lkey;
  } else {
    ibv_mr* own = domain_->Register(work.local, IBV_ACCESS_LOCAL_WRITE | (exposed ? IBV_ACCESS_REMOTE_WRITE : 0));
    if (!own) return false;
    work.registrations.push_back(own);
    key = own->lkey;
  }
  Append(pieces, work.local, key);
  return true;
}

}  // namespace penstock::rdma::verbs
