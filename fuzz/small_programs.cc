// Calls the small programs beside NFS (MOUNT, RQUOTA, and the port mapper's versions) with arbitrary arguments, as over
// UDP. Each call gets a reply that decodes as the procedure's results, unless its arguments are garbage.
//
// Input, for each call: an octet for the program, one for the version, one for the procedure, one for the length of the
// arguments, then these.
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "fs/memory/file_system.h"
#include "fs/test_files.h"
#include "input.h"
#include "nfs/exports.h"
#include "nfs/mount/program.h"
#include "nfs/quota/program.h"
#include "program_calls.h"
#include "protocol/mount.h"
#include "protocol/rpcb.h"
#include "protocol/rquota.h"
#include "rpc/dispatch.h"
#include "rpcbind/port_mapper.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Die;
using fuzz::Input;

class Server {
 public:
  Server() {
    auto files = std::make_shared<fs::TestFiles>(std::make_shared<fs::memory::FileSystem>(
        fs::memory::Options{.root_mode = 0777, .clock = [] { return fs::Timestamp{1, 0}; }}));
    files->OfferQuotas([](fs::QuotaKind, uint32_t id) -> fs::TestFiles::QuotaReply {
      return fs::Quota{.bytes = {.used = uint64_t{id} << 20, .hard = uint64_t{id} << 30, .grace_ends = id}};
    });
    if (!exports_.Add("/", files, {.squash = nfs::Squash::kNone})) std::abort();
    peer_.transport = rpc::TransportKind::kUdp;
    peer_.buffers = &buffers_;
    peer_.address = {asio::ip::make_address("192.0.2.1"), 700};
    peer_.local = {asio::ip::make_address("192.0.2.2"), 111};
    for (rpc::Program* each : std::vector<rpc::Program*>{&mount_, &quota_, &mapper2_, &mapper4_})
      dispatcher_.Add(*each);
  }

  void Execute(Input& input) {
    static constexpr uint32_t kPrograms[] = {mount3::MOUNT_PROGRAM, rquota::RQUOTAPROG, pmap::PMAP_PROG};
    const uint32_t program = kPrograms[input.Octet() % std::size(kPrograms)];
    const uint32_t version = input.Octet() % 6;
    const uint32_t procedure = input.Octet() % 14;
    const ConstBytes arguments = input.Take(input.Octet());

    xdr::Encoder encoder(buffers_);
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_), program, version, procedure, credential_.auth(), {}});
    encoder.Fixed(arguments);
    const rpc::Message reply = fuzz::Answer(dispatcher_, encoder.Finish(), peer_);
    const auto check = [&]<class Procedure>(std::type_identity<Procedure>) {
      if (Procedure::kProgram == program && Procedure::kVersion == version && Procedure::kNumber == procedure) {
        Check<Procedure>(reply);
      }
    };
    mount3::MOUNT_V3_procedures::ForEach(check);
    rquota::RQUOTAVERS_procedures::ForEach(check);
    rquota::EXT_RQUOTAVERS_procedures::ForEach(check);
    pmap::PMAP_VERS_procedures::ForEach(check);
    pmap::RPCBVERS_procedures::ForEach(check);
    pmap::RPCBVERS4_procedures::ForEach(check);
  }

 private:
  template <class Procedure>
  void Check(const rpc::Message& reply) {
    fuzz::ResultsOf<Procedure>(reply);
  }

  BufferPool buffers_;
  nfs::Exports exports_;
  nfs::mount::Program mount_{exports_};
  nfs::quota::Program quota_{exports_, [] { return int64_t{1000}; }};
  const std::vector<rpcbind::Service> services_{
      {100003, 3, {rpc::TransportKind::kTcp, false}, SocketAddress(asio::ip::address_v4::any(), 2049)},
      {100005, 3, {rpc::TransportKind::kUdp, false}, SocketAddress(asio::ip::address_v4::any(), 20048)}};
  rpcbind::PortMapper2 mapper2_{services_};
  rpcbind::PortMapper4 mapper4_{services_, "superuser", [] { return 0u; }};
  rpc::Dispatcher dispatcher_;
  rpc::Peer peer_;
  const rpc::ClientCredential credential_{rpc::SystemIdentity{.machine = "client", .groups = {}}};
  uint32_t xid_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Server server;
  while (!input.empty()) server.Execute(input);
  return 0;
}
