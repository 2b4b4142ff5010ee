// Makes sequences of NFSv3 calls on a file system in memory. The input gives a procedure, a handle (so that calls reach
// objects), and arbitrary arguments. Each call must get a reply that decodes as the procedure's results.
#include <algorithm>
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
#include "program_calls.h"
#include "protocol/nfs3.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Die;
using fuzz::Input;

class Server {
 public:
  Server() {
    auto tree = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{
        .capacity = 1 << 20, .root_mode = 0777, .clock = [this] { return fs::Timestamp{++ticks_, 0}; }});
    if (!exports_.Add("/", tree, {.squash = nfs::Squash::kNone, .security = {nfs::SecurityFlavor::kNone}})) {
      std::abort();
    }
    handles_.push_back(nfs::EncodedHandle(exports_.table().all()[0]->root()));
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
    const rpc::Message reply = fuzz::Answer(dispatcher_, encoder.Finish(), peer_);

    nfs3::NFS_V3_procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
      if (Procedure::kNumber == procedure) Check<Procedure>(reply);
    });
  }

 private:
  template <class Procedure>
  void Check(const rpc::Message& reply) {
    const auto results = fuzz::ResultsOf<Procedure>(reply);
    if (!results) return;
    if constexpr (requires { results->resok().obj->data; }) {
      if (results->status() == nfs3::NFS3_OK) Remember(*results->resok().obj);
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
