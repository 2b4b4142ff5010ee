#include "rdma/trace/endpoint.h"

#include <fmt/core.h>

#include <utility>

namespace penstock::rdma::trace {
namespace {

SetUp WithAddresses(SetUp set_up, const ConnectionInfo& info) {
  const bool client = set_up.self == From::kClient;
  set_up.client = client ? info.local : info.peer;
  set_up.server = client ? info.peer : info.local;
  return set_up;
}

std::string About(const ConnectionInfo& info) {
  return fmt::format("{}, up to {} RDMA Reads from here and {} of the peer at once", info.provider, info.ord, info.ird);
}

}  // namespace

Endpoint::Endpoint(std::unique_ptr<rdma::Endpoint> inner, const Sink& sink, SetUp set_up)
    : inner_(std::move(inner)),
      recorder_(sink, WithAddresses(std::move(set_up), inner_->info()), About(inner_->info())) {}

Endpoint::~Endpoint() {
  if (!ended_) recorder_.RecordEnd(DisconnectReason::kFault, "the endpoint was destroyed");
}

bool Endpoint::WillLeave(const Gather& gather, uint32_t limit) const { return !closing_ && SizeOf(gather) <= limit; }

void Endpoint::PostSend(SendRequest request) {
  if (WillLeave(request.gather, limits().max_message)) {
    recorder_.RecordSend(recorder_.self(), request.gather, request.solicited, request.invalidate);
  }
  inner_->PostSend(std::move(request));
}

void Endpoint::PostWrite(WriteRequest request) {
  if (WillLeave(request.gather, limits().max_transfer)) recorder_.RecordWrite(request);
  inner_->PostWrite(std::move(request));
}

void Endpoint::PostRead(ReadRequest request) {
  Read read{request.context, request.local, request.owner, {}};
  if (!closing_ && info().ord > 0) {
    read.sink = recorder_.RecordReadRequest(request.remote);
    read.recorded = true;
  }
  request.context = ++last_read_;
  reads_.emplace(request.context, std::move(read));
  inner_->PostRead(std::move(request));
}

void Endpoint::Disconnect() {
  closing_ = true;
  inner_->Disconnect();
}

size_t Endpoint::Poll(std::span<rdma::Completion> out) {
  const size_t count = inner_->Poll(out);
  for (rdma::Completion& completion : out.first(count)) Record(completion);
  return count;
}

void Endpoint::Record(rdma::Completion& completion) {
  switch (completion.operation) {
    case Operation::kReceive:
      if (completion.status != Status::kSuccess) return;
      recorder_.RecordSend(recorder_.peer(), {Slice::Borrowed(completion.buffer->bytes().first(completion.length))},
                           completion.solicited, completion.invalidated);
      return;
    case Operation::kRead:
      return FinishRead(completion);
    case Operation::kDisconnected:
      closing_ = ended_ = true;
      return recorder_.RecordEnd(completion.reason, completion.detail);
    case Operation::kSend:
    case Operation::kWrite:
    case Operation::kInvalidate:
      return;
  }
}

void Endpoint::FinishRead(rdma::Completion& completion) {
  auto found = reads_.extract(completion.context);
  const Read& read = found.mapped();
  completion.context = read.context;
  if (read.recorded && completion.status == Status::kSuccess) recorder_.RecordReadResponse(read.sink, read.local);
}

}  // namespace penstock::rdma::trace
