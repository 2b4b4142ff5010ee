// Sequences of NFSv3 calls on a file system in memory. The input gives a procedure, a handle (so that calls reach
// objects), and arbitrary arguments. Each call must get a reply that decodes as the procedure's results.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fs/memory/file_system.h"
#include "input.h"
#include "nfs/exports.h"
#include "nfs/v3/program.h"
#include "protocol/nfs3.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Input;

[[noreturn]] void Die(std::string_view procedure, const char* what) {
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(procedure.size()), procedure.data(), what);
  std::abort();
}

class Server {
 public:
  Server() {
    auto tree = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{
        .capacity = 1 << 20, .root_mode = 0777, .clock = [this] { return fs::Timestamp{++ticks_, 0}; }});
    if (!exports_.Add("/", tree, {.squash = nfs::Squash::kNone, .security = {nfs::SecurityFlavor::kNone}})) {
      std::abort();
    }
    handles_.push_back(nfs::EncodedHandle(exports_.all()[0]->root()));
    peer_.buffers = &buffers_;
    dispatcher_.Add(program_);
  }

  void Execute(Input& input) {
    const uint32_t procedure = input.Octet() % 24;  // two more than exist
    const ConstBytes handle = handles_[input.Octet() % handles_.size()].bytes();
    const ConstBytes arguments = input.Take(input.Octet());

    xdr::Encoder encoder(buffers_);
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_), nfs3::NFS_PROGRAM, nfs3::NFS_V3, procedure, {}, {}});
    if (procedure != 0) encoder.Opaque(handle);
    encoder.Fixed(arguments);
    std::optional<rpc::Message> reply;
    Spawn(Run(encoder.Finish(), reply));
    if (!reply) Die("a call", "did not end");

    nfs3::NFS_V3_procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
      if (Procedure::kNumber == procedure) Check<Procedure>(*reply);
    });
  }

 private:
  Task<> Run(rpc::Message call, std::optional<rpc::Message>& reply) {
    reply.emplace(co_await dispatcher_.HandleCall(std::move(call), peer_));
  }

  template <class Procedure>
  void Check(const rpc::Message& reply) {
    xdr::Decoder decoder(reply);
    rpc::ReplyHeader header;
    if (!rpc::DecodeReplyHeader(decoder, header) || !header.body.is_areply()) Die(Procedure::kName, "no reply");
    const auto status = header.body.areply().reply_data.discriminant();
    if (status == rpc::AcceptStatus::GARBAGE_ARGS) return;
    if (status != rpc::AcceptStatus::SUCCESS) Die(Procedure::kName, "not executed");
    typename Procedure::Results results{};
    if (!xdr::Decode(decoder, results) || !decoder.Finish()) Die(Procedure::kName, "undecodable results");
    if constexpr (requires { results.resok().obj->data; }) {
      if (results.status() == nfs3::NFS3_OK) Remember(*results.resok().obj);
    }
  }

  // Handles for later calls. A few are enough, and keep the input's handle octets meaningful.
  void Remember(const nfs3::nfs_fh3& handle) {
    constexpr size_t kMost = 16;
    const auto parsed = nfs::FileHandle::Parse(handle.data.bytes());
    if (!parsed) Die("a handle", "not one of ours");
    if (handles_.size() < kMost) handles_.emplace_back(*parsed);
  }

  BufferPool buffers_;
  int64_t ticks_ = 0;
  nfs::Exports exports_;
  std::vector<nfs::EncodedHandle> handles_;
  nfs::v3::Program program_{exports_, {.max_read = 4096, .max_write = 4096, .max_directory = 4096}};
  rpc::Dispatcher dispatcher_;
  rpc::Peer peer_;
  uint32_t xid_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Server server;
  while (!input.empty()) server.Execute(input);
  return 0;
}
