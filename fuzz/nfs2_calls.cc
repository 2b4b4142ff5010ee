// Makes sequences of NFSv2 calls, and of calls of MOUNT version 2, on a file system in memory. The input gives a
// procedure, a handle (so that calls reach objects), and arbitrary arguments. Each call must get a reply that decodes
// as the procedure's results. Each handle in a reply must be in the form of version 2.
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fs/memory/file_system.h"
#include "input.h"
#include "nfs/exports.h"
#include "nfs/mount/program.h"
#include "nfs/v2/program.h"
#include "program_calls.h"
#include "protocol/mount1.h"
#include "protocol/nfs2.h"
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
    handles_.push_back(*exports_.table().all()[0]->PaddedHandleOf(tree->Root()));
    peer_.buffers = &buffers_;
    dispatcher_.Add(program_);
    dispatcher_.Add(mount_);
  }

  void Execute(Input& input) {
    const uint8_t choice = input.Octet();
    const bool is_mount = choice >= 0xf0;
    const uint32_t procedure = is_mount ? choice & 0x0f : choice % 20;  // more than exist
    const nfs2::fhandle& handle = handles_[input.Octet() % handles_.size()];
    const uint8_t length = input.Octet();
    // The handle may be the input's own.
    const bool takes_handle = !is_mount && procedure != 0 && length < 0xe0;
    const ConstBytes arguments = input.Take(length);

    xdr::Encoder encoder(buffers_);
    const uint32_t program = is_mount ? mount1::MOUNT_PROGRAM : nfs2::NFS_PROGRAM;
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_), program, 2, procedure, {}, {}});
    if (takes_handle) encoder.Fixed(handle);
    encoder.Fixed(arguments);
    const rpc::Message reply = fuzz::Answer(dispatcher_, encoder.Finish(), peer_);

    const auto check = [&]<class Procedure>(std::type_identity<Procedure>) {
      if (Procedure::kNumber == procedure) Check<Procedure>(reply);
    };
    is_mount ? mount1::MOUNT_V2_procedures::ForEach(check) : nfs2::NFS_VERSION_procedures::ForEach(check);
  }

 private:
  template <class Procedure>
  void Check(const rpc::Message& reply) {
    const auto results = fuzz::ResultsOf<Procedure>(reply);
    if (!results) return;
    if constexpr (std::is_same_v<typename Procedure::Results, nfs2::diropres>) {
      if (results->is_ok()) Remember(results->ok().file);
    } else if constexpr (std::is_same_v<typename Procedure::Results, mount1::fhstatus>) {
      if (results->is_directory()) Remember(results->directory());
    }
  }

  // Handles for later calls. A few are enough, and keep the input's handle octets meaningful.
  void Remember(const nfs2::fhandle& handle) {
    constexpr size_t kMost = 16;
    const auto parsed = nfs::FromPadded(handle);
    if (!parsed || nfs::ToPadded(*parsed) != handle) Die("a handle", "not one of ours");
    if (handles_.size() < kMost) handles_.push_back(handle);
  }

  BufferPool buffers_;
  int64_t ticks_ = 0;
  nfs::Exports exports_;
  std::vector<nfs2::fhandle> handles_;
  nfs::v2::Program program_{exports_};
  nfs::mount::Program mount_{exports_, nfs::mount::Versions::kOneToThree};
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
