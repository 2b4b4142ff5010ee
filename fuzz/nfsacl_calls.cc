// Makes sequences of NFSACL calls on a file system in memory, which has a file, a directory and a symbolic link. The
// input gives a version and a procedure, an object, and arbitrary arguments. Each call must get a reply that decodes as
// the procedure's results. Lists that the server returns must be lists that it accepts, with the mode that it reports.
#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "fs/memory/file_system.h"
#include "input.h"
#include "nfs/acl/lists.h"
#include "nfs/acl/program.h"
#include "nfs/exports.h"
#include "nfs/padded_handle.h"
#include "nfs/v2/program.h"
#include "program_calls.h"
#include "protocol/nfsacl.h"
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
    if (!exports_.Add("/", tree_, {.squash = nfs::Squash::kNone, .security = {nfs::SecurityFlavor::kSys}}))
      Die("exports");
    const fs::Handle root = tree_->Root();
    const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    Spawn(Fill(context, root));
    peer_.buffers = &buffers_;
    dispatcher_.Add(program_);
  }

  void Execute(Input& input) {
    const uint8_t choice = input.Octet();
    const uint32_t version = choice < 0x80 ? nfsacl::NFS_ACL_V3 : nfsacl::NFS_ACL_V2;
    const uint32_t procedure = choice % (version == nfsacl::NFS_ACL_V3 ? 4 : 6);  // one more than exist
    const bool has_mask = version == nfsacl::NFS_ACL_V3 || (procedure != 0 && procedure != 3);
    const nfs::FileHandle& object = objects_[input.Octet() % objects_.size()];
    const ConstBytes arguments = procedure == 2 ? Lists(input) : input.Take(has_mask ? 4 : 0);

    xdr::Encoder encoder(buffers_);
    const rpc::ClientCredential root({.machine = "client", .uid = 0, .gid = 0, .groups = {}});
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_), nfsacl::NFS_ACL_PROGRAM, version, procedure, root.auth(), {}});
    if (procedure != 0 && version == nfsacl::NFS_ACL_V3) encoder.Opaque(nfs::EncodedHandle(object).bytes());
    if (procedure != 0 && version == nfsacl::NFS_ACL_V2) encoder.Fixed(*nfs::ToPadded(object));
    encoder.Fixed(arguments);
    const rpc::Message reply = fuzz::Answer(dispatcher_, encoder.Finish(), peer_);
    const auto check = [&]<class Procedure>(std::type_identity<Procedure>) {
      if (Procedure::kNumber == procedure) Check<Procedure>(reply);
    };
    version == nfsacl::NFS_ACL_V3 ? nfsacl::NFS_ACL_V3_procedures::ForEach(check)
                                  : nfsacl::NFS_ACL_V2_procedures::ForEach(check);
  }

 private:
  Task<> Fill(const fs::RequestContext& context, const fs::Handle& root) {
    objects_.push_back(exports_.table().all()[0]->root());
    const auto file = co_await tree_->Create(context, root, "file", {});
    const auto link = co_await tree_->MakeSymlink(context, root, "link", "file", {});
    if (!file.result || !link.result) Die("no objects");
    for (const fs::Handle& each : {file.result->handle, link.result->handle}) {
      objects_.push_back({exports_.table().all()[0]->id(), each});
    }
  }
  // Arguments of SETACL: either arbitrary octets, or well-formed lists of arbitrary entries, so that calls set lists.
  ConstBytes Lists(Input& input) {
    if (input.Octet() % 4 == 0) return input.Take(input.Octet());
    xdr::Encoder encoder(buffers_);
    encoder.U32(input.Octet() % 32);
    for (int list = 0; list < 2; ++list) {
      const uint32_t count = input.Octet() % 12;
      encoder.U32(count);
      encoder.U32(count);
      for (uint32_t i = 0; i < count; ++i) {
        encoder.U32(uint32_t{1} << input.Octet() % 7 | (list == 1 ? nfsacl::NA_ACL_DEFAULT : 0));
        encoder.U32(input.Octet());
        encoder.U32(input.Octet() % 9);
      }
    }
    arguments_ = encoder.Finish();
    return arguments_.stream.bytes();
  }

  template <class Procedure>
  void Check(const rpc::Message& reply) {
    const auto results = fuzz::ResultsOf<Procedure>(reply);
    if (!results) return;
    if constexpr (std::is_same_v<Procedure, nfsacl::ACLPROC3_GETACL>) {
      if (results->is_resok() && results->resok().attr) CheckLists(results->resok().acl, results->resok().attr->mode);
    } else if constexpr (std::is_same_v<Procedure, nfsacl::ACLPROC2_GETACL>) {
      if (results->is_resok()) CheckLists(results->resok().acl, results->resok().attr.mode);
    }
  }

  static void CheckLists(const nfsacl::secattr& lists, uint32_t mode) {
    const auto acls = nfs::acl::FromSecurityAttributes(lists);
    if (!acls) Die("the server does not accept the lists that it returns");
    if (acls->access && fs::ModeOfAcl(*acls->access) != (mode & 0777)) Die("the mode differs from the list");
  }

  BufferPool buffers_;
  int64_t ticks_ = 0;
  std::shared_ptr<fs::memory::FileSystem> tree_ = std::make_shared<fs::memory::FileSystem>(
      fs::memory::Options{.capacity = 1 << 20, .clock = [this] { return fs::Timestamp{++ticks_, 0}; }});
  nfs::Exports exports_;
  std::vector<nfs::FileHandle> objects_;
  nfs::v2::Program nfs2_{exports_};
  nfs::acl::Program program_{exports_, nullptr, &nfs2_};
  rpc::Dispatcher dispatcher_;
  rpc::Peer peer_;
  rpc::Message arguments_;
  uint32_t xid_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Server server;
  while (!input.empty()) server.Execute(input);
  return 0;
}
