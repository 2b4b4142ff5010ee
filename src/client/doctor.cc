#include "client/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/cancellation.h"
#include "client/connect.h"
#include "client/ports.h"
#include "client/set_up.h"
#include "protocol/nfs3.h"
#include "protocol/nfs4.h"
#include "rpc/client.h"

namespace penstock::client {
namespace {

// What a step has found.
using Finding = Result<std::string>;

// ---- what may help ----

std::string ConnectAdvice(const Url& url, int number) {
  const bool is_rdma = url.protocol == Protocol::kRdma;
  const std::string ports = fmt::format("`penstock probe {}` shows which ports answer", url.host);
  switch (number) {
    case ECONNREFUSED:
      return is_rdma ? fmt::format(
                           "nothing accepts RDMA connections at port {}: is the server's RDMA port another one, "
                           "or has it only TCP (proto=tcp)? {}",
                           url.port, ports)
                     : fmt::format("nothing listens at port {}: is the server running, and is its port another one? {}",
                                   url.port, ports);
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "check the address and the route to it: `ip route get ADDRESS`";
    case ETIMEDOUT:
      return fmt::format("a firewall may drop the packets, or the host is down; {}", ports);
    case EPROTO:
      return fmt::format("port {} may be the server's port for {}; {}", url.port, is_rdma ? "TCP" : "RDMA", ports);
    case EACCES:
      return "check the certificates: --tls-ca, --tls-cert, --tls-key; or the server has no TLS (xprtsec=none)";
    default:
      return ports;
  }
}

std::string CallAdvice(const Url& url) {
  const bool is_rdma = url.protocol == Protocol::kRdma;
  return fmt::format(
      "another service may have port {}, or it is the server's port for {}; `penstock probe {}` shows "
      "what answers where",
      url.port, is_rdma ? "TCP" : "RDMA", url.host);
}

std::string MountAdvice(const Url& url, const Error& error) {
  const std::string_view message = error.message;
  if (message.contains("in no export") || message.contains("no such directory")) {
    return fmt::format("`penstock showmount -e {}` lists the exports", url.host);
  }
  if (message.contains("does not export it to this host")) {
    return "the server's export table does not name this host; if it says `secure`, the client needs a port below "
           "1024: "
           "run it as root or with CAP_NET_BIND_SERVICE";
  }
  if (message.contains("accepts only sec=") || error.status == Status::kWrongSecurity) {
    return "name another flavor with --sec; for krb5, get a ticket with kinit";
  }
  if (error.status == Status::kVersionMismatch || error.number == EPROTONOSUPPORT) {
    return fmt::format("the server does not speak this version: leave out vers=, or look at `penstock probe {}`",
                       url.host);
  }
  if (error.number == ETIMEDOUT) {
    return fmt::format(
        "the server is slow, or one of its ports is another service's; `penstock probe {}` shows what "
        "answers where",
        url.host);
  }
  if (error.number == EACCES) return "for Kerberos, get a ticket with kinit, or name a keytab with --keytab";
  if (message.starts_with("MOUNT: ")) {
    return fmt::format(
        "version 3 needs MOUNT: name its port with -o mountport=, or use version 4 (-o vers=4.2); "
        "`penstock probe {}` shows what answers where",
        url.host);
  }
  return "the server's log may say more";
}

std::string PathAdvice(const Error& error) {
  switch (error.status.value_or(Status::kOk)) {
    case Status::kNotFound:
    case Status::kNotDirectory:
      return "list the directory above with `penstock ls`";
    case Status::kAccess:
    case Status::kNotPermitted:
      return "a directory on the way does not let this user through; root is another user on the server unless the "
             "export has no_root_squash";
    case Status::kWrongSecurity:
      return "this export needs another flavor: name it with --sec";
    case Status::kStale:
      return "the export has changed: mount it again";
    default:
      return "the server's log may say more";
  }
}

// ---- the steps ----

class Doctor {
 public:
  Doctor(Loop& loop, Workers& workers, const Url& url, MountOptions options, const StepLimits& limits)
      : loop_(loop), workers_(workers), url_(url), options_(std::move(options)), limits_(limits) {}

  Task<std::vector<Step>> Run();

 private:
  // Runs a step, unless an earlier one has failed.
  template <class Work, class Advise>
  Task<void> Do(std::string name, Work work, Advise advise);

  Task<Finding> LookUp();
  Task<Finding> Connect();
  Task<Finding> CallNull();
  Task<Finding> Open();
  std::unexpected<Error> Late() const;
  // Runs a step that uses the mount. Ends the mount if the step takes too long.
  template <class Work>
  Task<Finding> InTime(Work work);
  Task<Finding> FindPath();
  Task<Finding> CheckRights();
  Task<void> End();

  Loop& loop_;
  Workers& workers_;
  const Url url_;
  const MountOptions options_;
  const StepLimits limits_;
  std::vector<Step> steps_;
  bool failed_ = false;
  std::unique_ptr<rpc::Channel> channel_;
  std::unique_ptr<Mount> mount_;
  std::optional<Node> node_;
};

template <class Work, class Advise>
Task<void> Doctor::Do(std::string name, Work work, Advise advise) {
  Step step{.name = std::move(name)};
  if (!failed_) {
    const TimePoint begin = loop_.Now();
    Finding found = co_await work();
    step.took = loop_.Now() - begin;
    failed_ = !found;
    step.outcome = found ? Step::Outcome::kOk : Step::Outcome::kFailed;
    step.detail = found ? *found : found.error().message;
    if (!found) step.advice = advise(found.error());
  }
  steps_.push_back(std::move(step));
}

Task<Finding> Doctor::LookUp() {
  const auto found = co_await FindAddresses(loop_, workers_, url_, nullptr);
  if (!found) co_return std::unexpected(Error{found.error().message, std::nullopt, found.error().number});
  std::string text;
  for (const SocketAddress& each : *found) text += (text.empty() ? "" : ", ") + each.address().to_string();
  co_return text;
}

Task<Finding> Doctor::Connect() {
  ChannelOptions channel{.time_limit = limits_.call};
  channel.reply_limit = std::min(limits_.call, url_.recovery.ReplyLimit());
  auto opened = co_await OpenChannel(loop_, workers_, url_, options_.provider, std::move(channel));
  if (!opened) co_return std::unexpected(Error{opened.error().message, std::nullopt, opened.error().number});
  channel_ = *std::move(opened);
  const bool is_rdma = url_.protocol == Protocol::kRdma;
  const bool has_tls = url_.transport_security != TransportSecurity::kNone;
  co_return fmt::format("port {}, {}{}", url_.port, is_rdma ? "RDMA" : "TCP", has_tls ? " with TLS" : "");
}

Task<Finding> Doctor::CallNull() {
  rpc::Client client(*channel_, loop_.buffers(), rpc::RandomXid());
  std::string versions;
  std::optional<rpc::Error> why;
  const auto three = co_await client.Call<nfs3::NFSPROC3_NULL>({});
  if (three) versions = "3";
  if (!three) why = three.error();
  if (three || three.error().kind != rpc::Error::Kind::kTransport) {
    const auto four = co_await client.Call<nfs4::NFSPROC4_NULL>({});
    if (four) versions += versions.empty() ? "4" : " and 4";
    if (!four) why = four.error();
  }
  co_await Sleep(loop_, Duration::zero());
  channel_.reset();
  co_await Sleep(loop_, Duration::zero());
  if (versions.empty()) co_return std::unexpected(ErrorOf(*why, url_.host));
  co_return fmt::format("the server speaks NFS version {}", versions);
}

std::unexpected<Error> Doctor::Late() const {
  const std::chrono::duration<double> seconds = limits_.step;
  return std::unexpected(Error{fmt::format("no answer within {:g} s", seconds.count()), std::nullopt, ETIMEDOUT});
}

Task<Finding> Doctor::Open() {
  Cancellation late;
  MountOptions options = options_;
  options.cancellation = &late;
  const auto timer = loop_.MakeTimer([&late] { late.Cancel(); });
  timer->ExpireAfter(limits_.step);
  auto opened = co_await Mount::Open(loop_, workers_, url_, options);
  if (!opened && late.cancelled()) co_return Late();
  if (!opened) co_return std::unexpected(std::move(opened).error());
  mount_ = *std::move(opened);
  const TransferSizes& sizes = mount_->sizes();
  co_return fmt::format("NFS version {}, READs of {} KiB, WRITEs of {} KiB", mount_->version(), sizes.read >> 10,
                        sizes.write >> 10);
}

template <class Work>
Task<Finding> Doctor::InTime(Work work) {
  bool late = false;
  const auto timer = loop_.MakeTimer([this, &late] {
    late = true;
    mount_->Abort();
  });
  timer->ExpireAfter(limits_.step);
  Finding found = co_await work();
  if (late && !found) co_return Late();
  co_return found;
}

Task<Finding> Doctor::FindPath() {
  auto found = co_await mount_->Resolve(mount_->path());
  if (!found) co_return std::unexpected(WithTrouble(std::move(found).error(), mount_->trouble()));
  node_ = *std::move(found);
  const Attributes& attributes = node_->attributes;
  const bool is_directory = attributes.type == FileType::kDirectory;
  co_return fmt::format("{}, mode {:04o}, owner {}, group {}", is_directory ? "a directory" : "a file", attributes.mode,
                        attributes.owner, attributes.group);
}

Task<Finding> Doctor::CheckRights() {
  constexpr uint32_t kAll = right::kRead | right::kLookup | right::kModify | right::kExtend;
  const auto granted = co_await mount_->CheckAccess(node_->handle, url_.path, kAll);
  if (!granted) co_return std::unexpected(WithTrouble(granted.error(), mount_->trouble()));
  if ((granted->rights & right::kRead) == 0) {
    co_return std::unexpected(ErrorOf(Status::kAccess, url_.path));
  }
  co_return (granted->rights & (right::kModify | right::kExtend)) != 0 ? "this user may read and write"
                                                                       : "this user may read, not write";
}

Task<void> Doctor::End() {
  if (mount_) co_await mount_->Unmount();
  // Connections that close need one more turn of the loop, in which none of their own code runs.
  co_await Sleep(loop_, Duration::zero());
  channel_.reset();
  mount_.reset();
  co_await Sleep(loop_, Duration::zero());
}

Task<std::vector<Step>> Doctor::Run() {
  const bool is_rdma = url_.protocol == Protocol::kRdma;
  const bool is_3 = url_.version == Version::k3;
  co_await Do(
      "name", [this] { return LookUp(); },
      [](const Error&) { return std::string("check the spelling, /etc/hosts and the DNS"); });
  const std::string connection = is_rdma ? "RDMA connection" : "TCP connection";
  co_await Do(
      connection, [this] { return Connect(); },
      [this](const Error& error) { return ConnectAdvice(url_, error.number); });
  co_await Do("RPC", [this] { return CallNull(); }, [this](const Error&) { return CallAdvice(url_); });
  const std::string mount = is_3 ? "MOUNT" : "mount";
  co_await Do(mount, [this] { return Open(); }, [this](const Error& error) { return MountAdvice(url_, error); });
  const auto advise = [](const Error& error) { return PathAdvice(error); };
  co_await Do("path", [this] { return InTime([this] { return FindPath(); }); }, advise);
  co_await Do("permission", [this] { return InTime([this] { return CheckRights(); }); }, advise);
  co_await End();
  co_return std::move(steps_);
}

}  // namespace

Task<std::vector<Step>> Examine(Loop& loop, Workers& workers, const Url& url, MountOptions options, StepLimits limits) {
  Doctor doctor(loop, workers, url, std::move(options), limits);
  co_return co_await doctor.Run();
}

}  // namespace penstock::client
