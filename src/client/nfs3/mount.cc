#include "client/nfs3/mount.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/signal.h"
#include "base/workers.h"
#include "client/connect.h"
#include "client/nfs3/call.h"
#include "client/nfs3/convert.h"
#include "client/nfs3/file_locks.h"
#include "client/nfs3/lock_service.h"
#include "client/nfs3/names.h"
#include "client/nfs3/posix_acls.h"
#include "client/ports.h"
#include "client/set_up.h"
#include "protocol/mount.h"
#include "rpc/client.h"

namespace penstock::client::v3 {
namespace {

using nfs_protocol::SecurityFlavor;

constexpr uint32_t kLargestTransfer = 1 << 20;
constexpr uint32_t kLargestDirectory = 64 << 10;

std::string_view Describe(mount3::mountstat3 status) {
  switch (status) {
    case mount3::mountstat3::MNT3_OK:
      return "no error";
    case mount3::mountstat3::MNT3ERR_NOENT:
      return "no such directory";
    case mount3::mountstat3::MNT3ERR_NOTDIR:
      return "not a directory";
    case mount3::mountstat3::MNT3ERR_PERM:
    case mount3::mountstat3::MNT3ERR_ACCES:
      return "the server does not export it to this host";
    default:
      return "the server cannot mount it";
  }
}

// Returns the exports as a part of a message, at most a few of them.
std::string TextOf(const auto& exports) {
  constexpr size_t kMost = 8;
  std::vector<std::string> paths;
  for (const mount3::exportnode& each : exports) paths.emplace_back(each.ex_dir);
  if (paths.empty()) return ", which has none";
  std::ranges::sort(paths);
  const size_t more = paths.size() - std::min(paths.size(), kMost);
  paths.resize(paths.size() - more);
  return fmt::format(", which exports {}{}", fmt::join(paths, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// Whether the call may succeed with another credential. Linux's mountd takes no RPCSEC_GSS if it cannot read the
// keytab. If it can, it takes calls under integrity and privacy, and does not seal its results.
bool IsSecurityProblem(const rpc::Error& error) {
  if (error.kind != rpc::Error::Kind::kTransport) return error.kind == rpc::Error::Kind::kAuthentication;
  return error.transport == rpc::CallError::kNoContext || error.transport == rpc::CallError::kNotAuthentic;
}

class Mount final : public client::Mount {
 public:
  Mount(Loop& loop, Workers& workers, Url url, const MountOptions& options)
      : client::Mount(loop, std::move(url)),
        workers_(workers),
        initiators_(options.initiators),
        provider_(options.provider),
        retry_(Limited(options.retry, url_)),
        security_(loop, workers, url_, options.initiators),
        channel_(
            loop, [this](Duration time_limit) { return OpenProtected(time_limit); }, retry_, &ending_),
        client_(channel_, loop.buffers(), rpc::RandomXid(), security_.credential()),
        locks_({.timers = loop,
                .buffers = loop.buffers(),
                .host = url_.host,
                .open = [this](Duration time_limit) { return OpenLockManager(time_limit); },
                .reach_server = [this] { return Ping(); },
                // As Linux's client does: a lock manager need not have a context of Kerberos.
                .credential = SystemCredentialOf(url_),
                .retry = retry_,
                .ending = &ending_,
                .records = options.lock_records,
                .server = fmt::format("{}:{}", url_.host, url_.port),
                .aside = [this](std::function<void()> run) -> Task<void> {
                  co_await Offload(loop_, workers_, [&run] {
                    run();
                    return true;
                  });
                }}) {}

  Task<Result<void>> SetUp();

  // See v3::Call() in call.h.
  template <class Procedure>
  Task<Result<rpc::Reply<typename Procedure::Results>>> Call(const typename Procedure::Arguments& arguments,
                                                             std::string_view what, Bytes destination = {}) {
    return v3::Call<Procedure>(caller_, arguments, what, destination);
  }

  std::string_view version() const override { return "3"; }
  uint64_t reconnections() const override { return channel_.reconnections(); }
  SetupError trouble() const override {
    const SetupError unprotected = security_.trouble();
    return ending_.cancelled() || unprotected.message.empty() ? channel_.trouble() : unprotected;
  }
  // UMNT was sent when the mount was opened. The server keeps nothing but locks and a security context.
  Task<void> Unmount() override;
  void Abort() override { ending_.Cancel(); }

  Task<Result<void>> Ping() override;
  Task<Result<Node>> Lookup(const Handle& directory, std::string_view name) override {
    return v3::Lookup(caller_, directory, name);
  }
  Task<Result<Attributes>> GetAttributes(const Handle& object, std::string_view what) override {
    return v3::GetAttributes(caller_, object, what);
  }
  Task<Result<void>> SetAttributes(const Handle& object, std::string_view what,
                                   const NewAttributes& attributes) override {
    return v3::SetAttributes(caller_, object, what, attributes);
  }
  Task<Result<std::string>> ReadLink(const Handle& symlink, std::string_view what) override {
    return v3::ReadLink(caller_, symlink, what);
  }
  Task<Result<Space>> GetSpace(const Handle& object, std::string_view what) override {
    return v3::GetSpace(caller_, object, what);
  }
  Task<Result<Node>> MakeDirectory(const Handle& directory, std::string_view name, uint32_t mode) override {
    return v3::MakeDirectory(caller_, directory, name, mode);
  }
  Task<Result<Node>> MakeSymlink(const Handle& directory, std::string_view name, std::string_view target) override {
    return v3::MakeSymlink(caller_, directory, name, target);
  }
  Task<Result<Node>> MakeNode(const Handle& directory, std::string_view name, FileType type, uint32_t mode,
                              uint32_t device_major, uint32_t device_minor) override {
    return v3::MakeNode(caller_, directory, name, type, mode, {device_major, device_minor});
  }
  Task<Result<Listing>> ListFrom(const Handle& directory, std::string_view what, ListPosition from,
                                 ListContent content) override {
    return v3::ListFrom(caller_, directory, what, from, content, sizes_.directory);
  }
  Task<Result<Granted>> CheckAccess(const Handle& object, std::string_view what, uint32_t rights) override {
    return v3::CheckAccess(caller_, object, what, rights);
  }
  Task<Result<PosixAcl>> GetPosixAcl(const Handle& object, std::string_view what) override {
    return v3::GetPosixAcl(caller_, object, what);
  }
  Task<Result<void>> SetPosixAcl(const Handle& object, std::string_view what, const PosixAcl& acl) override {
    return v3::SetPosixAcl(caller_, object, what, acl);
  }
  Task<Result<void>> Link(const Handle& file, const Handle& directory, std::string_view name) override {
    return v3::Link(caller_, file, directory, name);
  }
  Task<Result<void>> Rename(const Handle& from_directory, std::string_view from, const Handle& to_directory,
                            std::string_view to) override {
    return v3::Rename(caller_, from_directory, from, to_directory, to);
  }
  Task<Result<void>> Remove(const Handle& directory, std::string_view name) override {
    return v3::Remove(caller_, directory, name);
  }
  Task<Result<void>> RemoveDirectory(const Handle& directory, std::string_view name) override {
    return v3::RemoveDirectory(caller_, directory, name);
  }
  Task<Result<std::unique_ptr<client::File>>> OpenFile(const Node& file, std::string_view what, Access access) override;
  Task<Result<std::unique_ptr<client::File>>> CreateFile(const Handle& directory, std::string_view name, uint32_t mode,
                                                         CreateMode how, Access access) override;
  LockService& locks() { return locks_; }

 private:
  Task<SetupResult<std::unique_ptr<rpc::Channel>>> OpenProtected(Duration time_limit);
  Task<SetupResult<std::unique_ptr<rpc::Channel>>> OpenLockManager(Duration time_limit);
  // Returns the flavors that the export accepts, as far as the server says.
  Task<Result<std::vector<SecurityFlavor>>> MountExport();
  Task<Result<std::vector<SecurityFlavor>>> CallMount(rpc::Client& mount_client);
  Task<Result<void>> FindExport(rpc::Client& mount_client);
  Task<Result<void>> ChooseFlavor(const std::vector<SecurityFlavor>& accepted);
  Task<Result<void>> LearnSizes();

  Workers& workers_;
  const MakeInitiator initiators_;
  rdma::Provider* const provider_;
  const RetryPolicy retry_;
  Cancellation ending_;
  CallSecurity security_;
  const Cancellation::Entry ending_security_{&ending_, [this] { security_.Stop(); }};
  ReconnectingChannel channel_;
  rpc::Client client_;
  const Caller caller_{client_, loop_, retry_.give_up_after, &ending_, url_.read_only};
  LockService locks_;
  std::string unprotected_;  // says that calls of MOUNT were not protected although they should be
};

// Version 3 has no open files at the server.
class File final : public client::File {
 public:
  File(Mount& mount, Node node, std::string_view name)
      : client::File(std::move(node), name),
        mount_(mount),
        handle_(ToHandle3(this->node().handle)),
        locks_(std::make_shared<FileLocks>(mount.locks(), this->node().handle, name)) {}

  Task<Result<FetchReply>> Fetch(uint64_t offset, Bytes into) override;
  Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from, Stability stability) override;
  Task<Result<Verifier>> Commit() override;
  Task<Result<void>> SetSize(uint64_t size) override {
    const NewAttributes attributes{.size = size};
    co_return co_await mount_.SetAttributes(node().handle, name(), attributes);
  }
  Task<Result<void>> Lock(std::string owner, ByteRange range, LockKind kind, Duration patience,
                          Cancellation* impatience) override {
    return locks_->Lock(std::move(owner), range, kind, patience, impatience);
  }
  Task<Result<void>> Widen(Node) override { co_return Result<void>(); }
  Task<Result<void>> Unlock(std::string owner, ByteRange range) override {
    return locks_->Unlock(std::move(owner), range);
  }
  Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, ByteRange range, LockKind kind) override {
    return locks_->Test(std::move(owner), range, kind);
  }
  Task<Result<void>> Close() override {
    (void)co_await locks_->ReleaseAll();
    co_return Result<void>();
  }

 private:
  Mount& mount_;
  const nfs3::nfs_fh3 handle_;
  const std::shared_ptr<FileLocks> locks_;
};

// ---- the mount ----

Task<SetupResult<std::unique_ptr<rpc::Channel>>> Mount::OpenProtected(Duration time_limit) {
  ChannelOptions options;
  options.time_limit = time_limit;
  auto channel = co_await OpenConnectionOf(channel_, loop_, workers_, url_, provider_, std::move(options));
  if (!channel) co_return std::unexpected(std::move(channel).error());
  // The server may have restarted.
  if (channel_.lacks_connection()) locks_.HandleLoss();
  co_return security_.Protect(*std::move(channel));
}

Task<SetupResult<std::unique_ptr<rpc::Channel>>> Mount::OpenLockManager(Duration time_limit) {
  ChannelOptions options;
  options.time_limit = time_limit;
  options.reply_limit = locks_.reply_limit();
  options.cancellation = &ending_;
  const auto is_chosen = std::make_shared<bool>(false);  // this is not a port without a lock manager
  options.on_lost = [this, is_chosen] {
    if (*is_chosen) locks_.HandleLoss();
  };
  auto channel = co_await client::OpenLockManager(loop_, workers_, url_, std::move(options));
  *is_chosen = channel.has_value();
  co_return channel;
}

Task<Result<void>> Mount::SetUp() {
  auto connected = co_await channel_.Connect();
  if (!connected) co_return std::unexpected(NotConnected(std::move(connected).error(), ending_, url_.host));
  PENSTOCK_CO_TRY(const std::vector<SecurityFlavor> accepted, co_await MountExport());
  PENSTOCK_CO_CHECK(co_await ChooseFlavor(accepted));
  // Before this point, an error of NFS under this flavor may say more.
  const bool is_kerberos = !ServicesOf(security_.flavor()).empty();
  if (!unprotected_.empty() && is_kerberos) log::warn("{}", unprotected_);
  channel_.Widen(url_.nconnect, Repetition::kOverNewerConnection);
  co_return Result<void>();
}

Task<void> Mount::Unmount() {
  channel_.HandleClosing();
  co_await locks_.Stop();
  if (security_.has_context()) {
    client_.set_credential(rpc::ClientCredential::EndOfContext());
    (void)co_await client_.Call<nfs3::NFSPROC3_NULL>({});
  }
  // This code may run inside of a connection.
  co_await Sleep(loop_, Duration::zero());
  // What still waits for the server is no longer needed.
  ending_.Cancel();
  co_await locks_.Ended();
  co_await channel_.EndConnecting();
}

// Finds the export that holds url.path.
Task<Result<void>> Mount::FindExport(rpc::Client& mount_client) {
  // The protocol does not bound the list of exports, so the client does.
  constexpr size_t kLargestList = 256 << 10;
  const rpc::ReplyBounds bounds{.open = kLargestList, .results = {}};
  auto exports = co_await mount_client.Call<mount3::MOUNTPROC3_EXPORT>({}, bounds);
  if (!exports && IsSecurityProblem(exports.error()) && security_.flavor() != SecurityFlavor::kSys) {
    // The handle that MOUNT returns is of use only in calls of NFS, which have the flavor that was asked for.
    unprotected_ = fmt::format("{}: MOUNT does not take sec={}, so its calls go without protection: {}", url_.host,
                               NameOf(security_.flavor()), rpc::Describe(exports.error()));
    mount_client.set_credential(SystemCredentialOf(url_));
    exports = co_await mount_client.Call<mount3::MOUNTPROC3_EXPORT>({}, bounds);
  }
  if (!exports) co_return std::unexpected(ErrorOf(exports.error(), url_.host));
  for (const mount3::exportnode& node : exports->results) {
    const auto below = Below(url_.path, node.ex_dir);
    if (below && (root_path_.empty() || node.ex_dir.size() > root_path_.size())) {
      root_path_ = node.ex_dir;
      path_ = *below;
    }
  }
  if (root_path_.empty()) {
    co_return std::unexpected(
        Error{fmt::format("{}: {} is in no export of the server{}", url_.host, url_.path, TextOf(exports->results)),
              std::nullopt, ENOENT});
  }
  for (const mount3::exportnode& node : exports->results) {
    if (node.ex_dir != root_path_ && Below(node.ex_dir, root_path_)) exports_below_.emplace_back(node.ex_dir);
  }
  co_return Result<void>();
}

Task<Result<std::vector<SecurityFlavor>>> Mount::MountExport() {
  auto service = co_await OpenMountService(loop_, workers_, url_, &ending_);
  if (!service) {
    SetupError why{fmt::format("MOUNT: {}", service.error().message), service.error().number};
    co_return std::unexpected(NotConnected(std::move(why), ending_, url_.host));
  }
  // MOUNT may be another process than NFS, so that it has a context of its own.
  CallSecurity security(loop_, workers_, service->url, initiators_);
  const std::unique_ptr<rpc::Channel> channel = security.Protect(std::move(service->channel));
  const auto end = [&] {
    channel->Close();
    security.Stop();
  };
  const Cancellation::Entry entry(&ending_, end);
  rpc::Client mount_client(*channel, loop_.buffers(), rpc::RandomXid(), security.credential());
  auto mounted = co_await CallMount(mount_client);
  if (!mounted && ending_.cancelled()) {
    mounted = std::unexpected(Closing(url_.host));
  } else if (!mounted) {
    mounted = std::unexpected(WithTrouble(std::move(mounted).error(), security.trouble()));
  }
  if (security.has_context()) {
    mount_client.set_credential(rpc::ClientCredential::EndOfContext());
    (void)co_await mount_client.Call<mount3::MOUNTPROC3_NULL>({});
  }
  // The channel must outlive the turn of the loop that delivered its last reply.
  co_await Sleep(loop_, Duration::zero());
  co_return mounted;
}

Task<Result<std::vector<SecurityFlavor>>> Mount::CallMount(rpc::Client& mount_client) {
  PENSTOCK_CO_CHECK(co_await FindExport(mount_client));
  auto mounted = co_await mount_client.Call<mount3::MOUNTPROC3_MNT>(root_path_, {.open = 1024, .results = {}});
  if (!mounted) co_return std::unexpected(ErrorOf(mounted.error(), url_.host));
  // The numbers are those of nfsstat3 (RFC 1813 §5.1.5).
  const mount3::mountstat3 status = mounted->results.fhs_status();
  if (status != mount3::mountstat3::MNT3_OK) {
    co_return std::unexpected(
        Error{fmt::format("{}: {}", root_path_, Describe(status)), std::nullopt, ErrnoOf(static_cast<Status>(status))});
  }
  log::info("{}: MOUNT has given {}", url_.host, root_path_);
  root_.Assign(mounted->results.mountinfo().fhandle.bytes());
  std::vector<SecurityFlavor> flavors;
  for (const int32_t number : mounted->results.mountinfo().auth_flavors) {
    if (const auto flavor = nfs_protocol::FlavorNumbered(static_cast<uint32_t>(number))) flavors.push_back(*flavor);
  }
  // The server's list of mounts is a courtesy (RFC 1813 §5.2.3). This client has nothing mounted on its host, so it
  // leaves the list.
  (void)co_await mount_client.Call<mount3::MOUNTPROC3_UMNT>(root_path_);
  co_return flavors;
}

// RFC 1813 §5.2.1, RFC 2623 §2.7: the list of flavors in the reply of MNT, in the server's order of preference.
Task<Result<void>> Mount::ChooseFlavor(const std::vector<SecurityFlavor>& accepted) {
  const auto none_in_common = [&] {
    std::string names;
    for (const SecurityFlavor flavor : accepted)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", NameOf(flavor));
    return std::unexpected(
        Error{fmt::format("{}: the server accepts only sec={}", root_path_, names), std::nullopt, EACCES});
  };
  if (url_.security) {
    const bool is_accepted = accepted.empty() || std::ranges::find(accepted, *url_.security) != accepted.end();
    if (!is_accepted) co_return none_in_common();
    co_return co_await LearnSizes();
  }
  const std::vector<SecurityFlavor> usable = nfs_protocol::PreferredOf(url_.flavors, accepted);
  if (accepted.empty() && usable.empty()) co_return co_await LearnSizes();
  Result<void> ready = none_in_common();
  for (const SecurityFlavor flavor : usable) {
    if (flavor == SecurityFlavor::kCcm) continue;
    security_.set_flavor(flavor);
    client_.set_credential(security_.credential());
    ready = co_await LearnSizes();
    if (ready || ready.error().status) break;
    // The user may have no ticket.
    ready = std::unexpected(WithTrouble(std::move(ready).error(), trouble()));
    log::info("{} by sec={}", ready.error().message, NameOf(flavor));
  }
  co_return ready;
}

// Calls FSINFO (RFC 1813 §3.3.19).
Task<Result<void>> Mount::LearnSizes() {
  const nfs3::FSINFO3args arguments{ToHandle3(root_)};
  auto reply = co_await Call<nfs3::NFSPROC3_FSINFO>(arguments, url_.path);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::FSINFO3resok& limits = reply->results.resok();
  const auto choose = [](uint32_t most, uint32_t ours) { return std::clamp(most, uint32_t{512}, ours); };
  sizes_.read = choose(limits.rtmax, LimitOr(url_.read_size, kLargestTransfer));
  sizes_.write = choose(limits.wtmax, LimitOr(url_.write_size, kLargestTransfer));
  sizes_.directory = choose(limits.dtpref, kLargestDirectory);
  log::info("{}: NFS version 3 by sec={}", url_.host, NameOf(security_.flavor()));
  co_return Result<void>();
}

Task<Result<void>> Mount::Ping() {
  auto reply = co_await client_.Call<nfs3::NFSPROC3_NULL>({});
  if (!reply) co_return std::unexpected(ErrorOf(reply.error(), url_.host));
  co_return Result<void>();
}

Task<Result<std::unique_ptr<client::File>>> Mount::OpenFile(const Node& file, std::string_view what, Access access) {
  if (ending_.cancelled()) co_return std::unexpected(Closing(what));
  if (url_.read_only && access != Access::kRead) co_return std::unexpected(ReadOnly(what));
  co_return std::make_unique<File>(*this, file, what);
}

Task<Result<std::unique_ptr<client::File>>> Mount::CreateFile(const Handle& directory, std::string_view name,
                                                              uint32_t mode, CreateMode how, Access) {
  PENSTOCK_CO_TRY(Node node, co_await v3::CreateFile(caller_, directory, name, mode, how));
  co_return std::make_unique<File>(*this, std::move(node), name);
}

// ---- files ----

Task<Result<File::FetchReply>> File::Fetch(uint64_t offset, Bytes into) {
  if (locks_->in_use()) {
    PENSTOCK_CO_CHECK(co_await locks_->CheckData());
  }
  const nfs3::READ3args arguments{handle_, offset,
                                  static_cast<uint32_t>(std::min<size_t>(into.size(), mount_.sizes().read))};
  auto reply = co_await mount_.Call<nfs3::NFSPROC3_READ>(arguments, name(), into);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::READ3resok& read = reply->results.resok();
  const Slice& octets = read.data.data().memory();
  const bool ends = read.eof || arguments.count == 0;
  if (octets.size() > arguments.count || octets.size() != read.count || (read.count == 0 && !ends)) {
    co_return std::unexpected(Contradiction("READ"));
  }
  co_return FetchReply{octets, read.eof};
}

Task<Result<File::WriteReply>> File::Write(uint64_t offset, ConstBytes from, Stability stability) {
  if (locks_->in_use()) {
    PENSTOCK_CO_CHECK(co_await locks_->CheckData());
  }
  const ConstBytes part = from.first(std::min<size_t>(from.size(), mount_.sizes().write));
  using enum nfs3::stable_how;
  const nfs3::WRITE3args arguments{handle_, offset, static_cast<uint32_t>(part.size()),
                                   stability == Stability::kStable ? FILE_SYNC : UNSTABLE,
                                   xdr::Payload<xdr::kUnbounded>::Borrowed(part)};
  auto reply = co_await mount_.Call<nfs3::NFSPROC3_WRITE>(arguments, name());
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::WRITE3resok& written = reply->results.resok();
  if (written.count > part.size() || (written.count == 0 && !part.empty())) {
    co_return std::unexpected(Contradiction("WRITE"));
  }
  co_return WriteReply{written.count, written.verf, written.committed == FILE_SYNC};
}

Task<Result<Verifier>> File::Commit() {
  const nfs3::COMMIT3args arguments{handle_, 0, 0};
  auto reply = co_await mount_.Call<nfs3::NFSPROC3_COMMIT>(arguments, name());
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return reply->results.resok().verf;
}

}  // namespace

Task<Result<std::unique_ptr<client::Mount>>> Open(Loop& loop, Workers& workers, const Url& url, MountOptions options) {
  auto mount = std::make_unique<Mount>(loop, workers, url, options);
  if (IsCancelled(options.cancellation)) co_return std::unexpected(Closing(url.host));
  const Cancellation::Entry entry(options.cancellation, [at = mount.get()] { at->Abort(); });
  Result<void> ready = co_await mount->SetUp();
  if (ready) {
    mount->locks().GiveBackLeftLocks();
    co_return mount;
  }
  // Closed connections need one more turn of the loop before they are destroyed.
  co_await Sleep(loop, Duration::zero());
  co_return std::unexpected(WithTrouble(std::move(ready).error(), mount->trouble()));
}

}  // namespace penstock::client::v3
