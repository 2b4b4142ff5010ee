// An NFSv4 server over a file system in memory, for fuzz targets that send sequences of COMPOUNDs. Time passes when the
// target says so, no client answers the server's calls, and the server restarts with what it has stored.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/timer.h"
#include "fs/memory/file_system.h"
#include "idmap/lookups.h"
#include "idmap/mapper.h"
#include "input.h"
#include "nfs/exports.h"
#include "nfs/test_initiator.h"
#include "nfs/v4/callback/test_callbacks.h"
#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/engine/program.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/test_copy_sources.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4_compound.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::fuzz {

// Time that passes between COMPOUNDs.
class Clock : public TimerService {
 public:
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return nullptr; }
  TimePoint now{};
};

// Its export, "/", takes calls of the given flavors. The target calls Start() before the first COMPOUND.
class Nfs4Server {
 protected:
  Nfs4Server(const nfs::v4::Settings& settings, nfs::SecurityFlavors flavors) : settings_(settings) {
    auto tree = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{
        .capacity = 1 << 20, .root_mode = 0777, .clock = [this] { return fs::Timestamp{++ticks_, 0}; }});
    if (!exports_.Add("/", tree, {.squash = nfs::Squash::kNone, .security = flavors})) Die("no export");
    copy_sources_.contents = "the file of another server";
    auto names = nfs::v4::Namespace::Make(exports_, {1000, 0});
    if (!names) Die("no namespace");
    names_.Set(*std::move(names));
    auto store = std::make_unique<nfs::v4::MemoryRecoveryStore>();
    store_ = store.get();
    recovery_.emplace(std::move(store));
  }

  // The first start, or one after kill -9.
  void Start() {
    const auto restart = store_->Begin(settings_.lease, std::chrono::sys_seconds(std::chrono::seconds(1000)));
    run_ = std::make_unique<Running>(settings_, *restart, reply_store_.Load(), stream_store_.Load(), clock_.now);
    run_->state.SendBy(callbacks_);
    run_->program.emplace(MakeServices());
    run_->called_by.emplace(*run_->program, secured_);
    run_->dispatcher.Add(*run_->called_by);
  }
  void KeepLeases() { Spawn(nfs::v4::KeepLeases(MakeServices(), nullptr)); }
  void CheckConsistency() {
    const auto wrong = state().Run([&](nfs::v4::StateTables& tables) { return tables.FindInconsistency(); });
    if (wrong) Die(wrong);
  }
  nfs::v4::State& state() { return run_->state; }
  nfs::v4::Services MakeServices() {
    return {.names = names_,
            .settings = settings_,
            .owners = owners_,
            .state = run_->state,
            .callbacks = callbacks_,
            .recovery = *recovery_,
            .clock = clock_,
            .copy_sources = &copy_sources_,
            .replies = &replies_};
  }

  // ---- a COMPOUND

  void Begin(uint32_t minor_version, uint32_t count) {
    encoder_.emplace(buffers_);
    rpc::EncodeCallHeader(
        *encoder_, {rpc::Xid(++xid_), nfs4::NFS4_PROGRAM, nfs4::NFS_V4, nfs4::NFSPROC4_COMPOUND::kNumber, {}, {}});
    xdr::Encode(*encoder_, nfs4::COMPOUND4args_head{.tag = {}, .minorversion = minor_version, .count = count});
  }
  void AddNumber(nfs4::nfs_opnum4 number) { encoder_->U32(static_cast<uint32_t>(number)); }
  template <class Arguments>
  void Add(nfs4::nfs_opnum4 number, const Arguments& arguments) {
    AddNumber(number);
    xdr::Encode(*encoder_, arguments);
  }
  // Returns the results, which view reply_; nothing if the call gets no reply. A reply must be decodable. Without
  // results if the server has refused the call as garbage.
  std::optional<nfs4::COMPOUND4res> Send(rpc::Message call, const rpc::Peer& peer) {
    std::optional<rpc::Message> reply;
    Spawn(Call(std::move(call), peer, reply));
    if (!reply) Die("a COMPOUND did not come to an end");
    reply_ = *std::move(reply);
    if (reply_.empty()) return std::nullopt;
    xdr::Decoder decoder(reply_);
    rpc::ReplyHeader header;
    if (!rpc::DecodeReplyHeader(decoder, header) || !header.body.is_areply()) Die("no reply");
    nfs4::COMPOUND4res results{};
    if (header.body.areply().reply_data.discriminant() != rpc::AcceptStatus::SUCCESS) return results;
    if (!xdr::Decode(decoder, results) || !decoder.Finish()) Die("undecodable results");
    return results;
  }

  BufferPool buffers_;
  nfs::Exports exports_;
  const nfs::v4::Settings settings_;
  Clock clock_;
  std::optional<rpc::Credential> secured_;  // of all calls; nothing: the call's own
  std::optional<xdr::Encoder> encoder_;
  rpc::Message reply_;

 private:
  // One run of the server.
  struct Running {
    Running(const nfs::v4::Settings& settings, const nfs::v4::RecoveryStore::Restart& restart,
            std::vector<nfs::v4::SavedSession> dead, std::vector<nfs::v4::SavedBoundSession> bound, TimePoint now)
        : state({.settings = settings,
                 .instance = restart.instance,
                 .secret = SipKey{1, 2},
                 .limits = {.lease = settings.lease},
                 .grace = nfs::v4::Grace(restart, settings.grace, now),
                 .dead_sessions = nfs::v4::DeadSessions(std::move(dead), settings.lease, now),
                 .bound_sessions = std::move(bound),
                 .bound_dialect = &nfs::v4::DialectOfBoundSessions(),
                 .now = now}) {}
    nfs::v4::State state;
    std::optional<nfs::v4::Program> program;
    std::optional<nfs::CalledBy> called_by;
    rpc::Dispatcher dispatcher;
  };

  // The users and groups: a to z with the ids 0 to 25. Others are unknown, or the database fails.
  static idmap::Answer Ask(const idmap::Query& query) {
    const auto* id = std::get_if<uint32_t>(&query.of);
    const std::string name = id ? std::string(1, static_cast<char>('a' + *id % 26)) : std::get<std::string>(query.of);
    const uint32_t number = id ? *id : static_cast<uint8_t>(name[0]) - 'a';
    if (name.size() > 2) return std::unexpected(NoAnswer{});
    if (name.size() != 1 || number > 25) return std::nullopt;
    return idmap::Account{.name = name, .id = number};
  }

  Task<> Call(rpc::Message call, const rpc::Peer& peer, std::optional<rpc::Message>& reply) {
    reply.emplace(co_await run_->dispatcher.HandleCall(std::move(call), peer));
  }

  int64_t ticks_ = 0;
  Published<nfs::v4::Namespace> names_;
  idmap::Lookups lookups_{&Ask, clock_, {}};
  const idmap::Mapper owners_{"x", lookups_};
  nfs::v4::NoCallbacks callbacks_;
  nfs::v4::TestCopySources copy_sources_;
  nfs::v4::MemoryRecoveryStore* store_ = nullptr;  // owned by recovery_
  std::optional<nfs::v4::RecoveryQueue> recovery_;
  nfs::v4::MemoryReplyStore reply_store_;
  nfs::v4::MemoryStreamStore stream_store_;
  nfs::v4::ReplyWriter replies_{reply_store_, stream_store_};
  std::unique_ptr<Running> run_;
  uint32_t xid_ = 0;
};

}  // namespace penstock::fuzz
