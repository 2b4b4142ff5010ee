#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/signal.h"
#include "client/mount.h"
#include "client/nfs4/callback.h"
#include "client/nfs4/open_file.h"
#include "client/nfs4/sess01/bound_session.h"
#include "client/set_up.h"
#include "rpc/client.h"
#include "sess01_measurements.h"

namespace penstock::bench {
namespace {

using client::Handle;
using client::Result;
using client::v4::CallerOptions;
using client::v4::sess01::BoundSession;

constexpr uint32_t kReadSize = 256 << 10;
constexpr uint64_t kLoadFile = 8 << 20;

// A client of a session of 2004 that takes read delegations and notes when they are recalled. While it is busy, it
// reads a file all the time.
class Holder final : private client::v4::CallbackReceiver {
 public:
  Holder(Surroundings where, const client::Url& url, client::BackChannelPlace back)
      : loop_(where.loop),
        url_(url),
        connector_(where.loop, where.workers, url_, &where.provider),
        channel_(
            where.loop, [this](Duration limit) { return session_->first().Open(limit); }, client::Limited({}, url_)),
        client_(channel_, where.loop.buffers(), first_xid_, client::SystemCredentialOf(url_)) {
    const BoundSession::Parts parts{.timers = where.loop,
                                    .buffers = where.loop.buffers(),
                                    .credential = client::SystemCredentialOf(url_),
                                    .connector = connector_,
                                    .state = *this,
                                    .retry = client::Limited({}, url_),
                                    .channel = channel_,
                                    .client = client_,
                                    .first_xid = first_xid_};
    std::random_device random;
    CallerOptions caller;
    caller.dialect = &client::v4::kSessionsOf2004;
    caller.owner = fmt::format("sess01_bench {} {:08x}{:08x}", ::getpid(), random(), random());
    caller.give_up_after = url_.recovery.CallLimit();
    client::BoundSessionOptions session = url_.session;
    session.back = back;
    session_.emplace(parts, std::move(caller), session);
    session_->set_reclaim([]() -> Task<void> { co_return; });
  }

  Task<Result<void>> Open() {
    auto connected = co_await channel_.Connect();
    if (!connected) co_return std::unexpected(client::Error{connected.error().message, {}, connected.error().number});
    co_return co_await session_->Establish(url_.host);
  }
  Task<void> Close() {
    co_await session_->Close();
    co_await Sleep(loop_, Duration::zero());
  }

  // Opens the file for reading. The server must grant a delegation.
  Task<Result<void>> Take(const client::Node& file) {
    recalled_at_.reset();
    file_ = file.handle;
    const client::v4::StateOwner owner(++opens_);
    using Wanted = client::v4::Delegations::Wanted;
    nfs4::OPEN4args open = MakeOpen(*session_, owner, client::Access::kRead, Wanted::kToo);
    open.openhow = nfs4::openflag4(nfs4::opentype4::OPEN4_NOCREATE);
    open.claim = nfs4::open_claim4(nfs4::open_claim_type4::CLAIM_NULL, nfs4::component4(file.name));
    const auto build = [&] { return std::tuple(nfs4::PUTFH4args{file.directory}, open); };
    auto reply = co_await session_->Call(build, "OPEN");
    if (!reply) co_return std::unexpected(std::move(reply).error());
    const nfs4::OPEN4resok& opened = std::get<1>(reply->results).resok4();
    open_ = opened.stateid;
    if (!opened.delegation.is_read()) {
      co_return std::unexpected(
          client::Error{"the server grants no read delegation, so there is nothing to recall", {}});
    }
    delegation_ = opened.delegation.read().stateid;
    co_return Result<void>();
  }
  Task<Result<void>> GiveBack() {
    const auto give = [&] { return std::tuple(nfs4::PUTFH4args{file_}, nfs4::DELEGRETURN4args{delegation_}); };
    auto given = co_await session_->Call(give, "DELEGRETURN");
    if (!given) co_return std::unexpected(std::move(given).error());
    const auto close = [&] { return std::tuple(nfs4::PUTFH4args{file_}, nfs4::CLOSE4args{0, open_}); };
    auto closed = co_await session_->Call(close, "CLOSE");
    if (!closed) co_return std::unexpected(std::move(closed).error());
    co_return Result<void>();
  }
  std::optional<TimePoint> recalled_at() const { return recalled_at_; }
  Signal& changed() { return changed_; }

  // Keeps `depth` READs under way. Returns when they are.
  Task<Result<void>> StartLoad(const Handle& file, unsigned depth) {
    is_loading_ = true;
    reads_ = 0;
    for (unsigned i = 0; i < depth; ++i) {
      ++readers_;
      Spawn(Read(file, i));
    }
    while (reads_ < 2 * depth && !error_) co_await changed_;
    if (error_) co_return std::unexpected(*error_);
    co_return Result<void>();
  }
  Task<Result<void>> StopLoad() {
    is_loading_ = false;
    while (readers_ > 0) co_await changed_;
    if (error_) co_return std::unexpected(*error_);
    co_return Result<void>();
  }

 private:
  Task<void> Read(Handle file, unsigned number) {
    const BufferRef buffer = loop_.buffers().Allocate(kReadSize);
    const Bytes into = buffer->bytes().first(kReadSize);
    uint64_t offset = uint64_t{number} * kReadSize;
    while (is_loading_ && !error_) {
      const auto build = [&] {
        return std::tuple(nfs4::PUTFH4args{file}, nfs4::READ4args{{}, offset % kLoadFile, kReadSize});
      };
      auto reply = co_await session_->Call(build, "READ", into);
      if (!reply) error_ = std::move(reply).error();
      ++reads_;
      offset += uint64_t{kReadSize};
      changed_.Notify();
    }
    --readers_;
    changed_.Notify();
  }

  // CallbackReceiver. Only recalls concern this client.
  nfs4::sessionid4 session() const override { return {}; }
  bool IsUnderWay(client::v4::SlotUse /*request*/) const override { return false; }
  void HandleSlotTarget(uint32_t /*target*/) override {}
  nfs4::nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall) override {
    if (!(recall.stateid.other == delegation_.other)) return nfs4::nfsstat4::NFS4ERR_BAD_STATEID;
    if (!recalled_at_) recalled_at_ = loop_.Now();
    changed_.Notify();
    return nfs4::nfsstat4::NFS4_OK;
  }
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args& /*recall*/) override {}
  client::v4::DelegationTable::Pointer DelegationOf(const Handle& /*file*/) override { return nullptr; }
  void HandleLockAvailable(const Handle& /*file*/) override {}

  Loop& loop_;
  const client::Url url_;
  client::v4::sess01::UrlConnector connector_;
  std::optional<BoundSession> session_;
  client::ReconnectingChannel channel_;
  const rpc::Xid first_xid_ = rpc::RandomXid();
  rpc::Client client_;
  uint64_t opens_ = 0;
  Handle file_;
  nfs4::stateid4 open_{};
  nfs4::stateid4 delegation_{};
  std::optional<TimePoint> recalled_at_;
  bool is_loading_ = false;
  unsigned readers_ = 0;
  uint64_t reads_ = 0;
  std::optional<client::Error> error_;
  Signal changed_;
};

// The other client: it makes the files, and opens them for writing. Each file is contested once, because the server
// grants no delegation of a file for some time after a recall.
class Rival {
 public:
  Rival(Loop& loop, client::Mount& mount) : loop_(loop), mount_(mount) {}

  // Makes files for this number of recalls.
  Task<Result<void>> Make(size_t count) {
    PENSTOCK_CO_TRY(const client::Node top, co_await mount_.Resolve(mount_.path()));
    directory_ = top.handle;
    PENSTOCK_CO_TRY(load_, co_await MakeFile("load", kLoadFile));
    for (size_t i = 0; i < count; ++i) {
      PENSTOCK_CO_TRY(client::Node file, co_await MakeFile(std::to_string(i), 0));
      contested_.push_back(std::move(file));
    }
    co_return Result<void>();
  }
  Task<Result<void>> Remove() {
    Result<void> removed;
    for (const std::string& name : made_) {
      Result<void> each = co_await mount_.Remove(directory_, name);
      if (!each && removed) removed = std::move(each);
    }
    co_return removed;
  }
  const client::Node& load() const { return load_; }

  // Lets `holder` open a file with a delegation, opens the file for writing and closes it again. The OPEN lasts until
  // `holder` has given its delegation back. Returns the time until the recall, in microseconds.
  Task<Result<double>> Contest(Holder& holder) {
    const client::Node file = contested_.back();
    contested_.pop_back();
    PENSTOCK_CO_CHECK(co_await holder.Take(file));
    opened_.reset();
    const TimePoint began = loop_.Now();
    Spawn(Open(file, holder.changed()));
    while (!holder.recalled_at() && !opened_) co_await holder.changed();
    const auto recalled = holder.recalled_at();
    // This code may run inside of the callback.
    co_await Sleep(loop_, Duration::zero());
    Result<void> given = co_await holder.GiveBack();
    while (!opened_) co_await holder.changed();
    if (!*opened_) co_return std::unexpected(opened_->error());
    if (!given) co_return std::unexpected(std::move(given).error());
    if (!recalled) co_return std::unexpected(client::Error{"another client opened the file without a recall", {}});
    co_return std::chrono::duration<double, std::micro>(*recalled - began).count();
  }

 private:
  Task<Result<client::Node>> MakeFile(std::string_view suffix, uint64_t size) {
    const std::string name = fmt::format(".penstock-bench-{}-{}", ::getpid(), suffix);
    PENSTOCK_CO_TRY(const auto file, co_await mount_.CreateFile(directory_, name, 0600));
    made_.push_back(name);
    client::NewAttributes attributes;
    attributes.size = size;
    PENSTOCK_CO_CHECK(co_await mount_.SetAttributes(file->node().handle, name, attributes));
    PENSTOCK_CO_CHECK(co_await file->Close());
    co_return co_await mount_.Lookup(directory_, name);
  }
  Task<void> Open(const client::Node& node, Signal& changed) {
    auto file = co_await mount_.OpenFile(node, "the contested file", client::Access::kWrite);
    Result<void> done;
    if (file) {
      done = co_await (*file)->Close();
    } else {
      done = std::unexpected(std::move(file).error());
    }
    opened_ = std::move(done);
    changed.Notify();
  }

  Loop& loop_;
  client::Mount& mount_;
  Handle directory_;
  client::Node load_;
  std::vector<client::Node> contested_;
  std::vector<std::string> made_;
  std::optional<Result<void>> opened_;
};

constexpr size_t kCases = 4;

struct Case {
  std::string_view back;
  std::string_view operations;
  std::vector<double> times{};  // in microseconds
};

Task<Result<void>> MeasureCases(Rival& rival, std::array<Holder*, 2> holders, const RecallOptions& options,
                                std::array<Case, kCases>& cases) {
  // The first round fills caches.
  for (unsigned round = 0; round <= options.rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const size_t index = (i + round) % cases.size();
      Holder& holder = *holders[index / 2];
      const bool is_busy = index % 2 != 0;
      if (is_busy) PENSTOCK_CO_CHECK(co_await holder.StartLoad(rival.load().handle, options.depth));
      const auto time = co_await rival.Contest(holder);
      if (is_busy) PENSTOCK_CO_CHECK(co_await holder.StopLoad());
      if (!time) co_return std::unexpected(time.error());
      if (round > 0) cases[index].times.push_back(*time);
    }
  }
  co_return Result<void>();
}

Task<Result<void>> MeasureHolders(Surroundings where, Rival& rival, const RecallOptions& options) {
  PENSTOCK_CO_CHECK(co_await rival.Make(kCases * (options.rounds + 1)));
  Holder own(where, options.url, client::BackChannelPlace::kOwn);
  Holder shared(where, options.url, client::BackChannelPlace::kShared);
  PENSTOCK_CO_CHECK(co_await own.Open());
  Result<void> measured = co_await shared.Open();
  std::array<Case, kCases> cases = {Case{"own", "idle"}, Case{"own", "busy"}, Case{"shared", "idle"},
                                    Case{"shared", "busy"}};
  if (measured) {
    measured = co_await MeasureCases(rival, {&own, &shared}, options, cases);
    co_await shared.Close();
  }
  co_await own.Close();
  if (!measured) co_return measured;
  fmt::print("{:12}  {:18} {:>10} {:>10} {:>10} {:>12}\n", "back channel", "operations channel", "p50 us", "p90 us",
             "max us", "of own, idle");
  const double least = Quantile(cases[0].times, 0.5);
  for (const Case& each : cases) {
    const double median = Quantile(each.times, 0.5);
    fmt::print("{:12}  {:18} {:>10.1f} {:>10.1f} {:>10.1f} {:>12.2f}\n", each.back, each.operations, median,
               Quantile(each.times, 0.9), Quantile(each.times, 1), median / least);
  }
  co_return Result<void>();
}

}  // namespace

Task<Result<void>> MeasureRecalls(Surroundings where, const RecallOptions& options) {
  // The other client speaks version 4.1, and takes no delegations.
  client::Url url = options.url;
  url.version = client::Version::k41;
  url.session = {};
  if (url.protocol == client::Protocol::kStepUp) url.protocol = client::Protocol::kTcp;
  const client::MountOptions mount_options{.retry = {}, .provider = &where.provider, .delegations = 0};
  PENSTOCK_CO_TRY(const auto mount, co_await client::Mount::Open(where.loop, where.workers, url, mount_options));
  Rival rival(where.loop, *mount);
  Result<void> measured = co_await MeasureHolders(where, rival, options);
  Result<void> removed = co_await rival.Remove();
  co_await mount->Unmount();
  co_await Sleep(where.loop, Duration::zero());
  co_return measured ? removed : measured;
}

}  // namespace penstock::bench
