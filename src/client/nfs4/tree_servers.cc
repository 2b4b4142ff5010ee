#include "client/nfs4/tree_servers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/pauses.h"
#include "base/under_way.h"
#include "client/connect.h"
#include "client/nfs4/locations.h"
#include "client/set_up.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {

using nfs_protocol::SecurityFlavor;

namespace {

// The time limit for the first answer of a server, in seconds, if another one has the same file system.
constexpr uint32_t kProbeLimit = 15;
// The most failures that one error lists.
constexpr size_t kMostReasons = 3;

std::string Describe(const Error& error) { return error.status ? client::Describe(*error.status) : error.message; }

std::string PathText(const std::vector<std::string>& path) {
  std::string text;
  for (const std::string& name : path) text += "/" + name;
  return text.empty() ? "/" : text;
}

// The flavors to try for the root of a server that does not tell which ones it accepts.
constexpr SecurityFlavor kUsualFlavors[] = {SecurityFlavor::kKrb5, SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5p,
                                            SecurityFlavor::kNone};

SecurityFlavor FlavorOf(const Url& url) { return url.security.value_or(SecurityFlavor::kSys); }

Error NoCommonFlavor(std::string_view what, const Flavors& accepted) {
  Error error = client::ErrorOf(Status::kWrongSecurity, what);
  if (!accepted.empty()) error.message += fmt::format(": sec={}", TextOf(accepted));
  return error;
}

// Whether another flavor may succeed: the server does not accept this one, or there is no security context.
bool ConcernsFlavor(const Error& error) {
  return error.status ? error.status == Status::kWrongSecurity : error.number == EACCES;
}

// Mounts the server by the first of url.flavors that the server accepts.
Task<OpenedServer> OpenByPreference(Loop& loop, Workers& workers, Url url, const Dialect& dialect,
                                    MountOptions options) {
  OpenedServer opened;
  std::string reasons;
  for (const SecurityFlavor flavor : url.flavors) {
    url.security = flavor;
    Flavors accepted;
    opened = co_await OpenServer(loop, workers, url, dialect, options, accepted);
    if (opened || !ConcernsFlavor(opened.error())) co_return opened;
    if (opened.error().status) opened = std::unexpected(NoCommonFlavor(url.host, accepted));
    const std::string& reason = opened.error().message;
    log::info("{} by sec={}", reason, NameOf(flavor));
    reasons += fmt::format("{}sec={}: {}", reasons.empty() ? "" : "; ", NameOf(flavor), reason);
  }
  Error error = std::move(opened).error();
  error.message = std::move(reasons);
  co_return std::unexpected(std::move(error));
}

}  // namespace

std::string ServerText(const Url& url) { return fmt::format("{} port {}", url.host, url.port); }

Task<OpenedServer> OpenNegotiated(Loop& loop, Workers& workers, Url url, const Dialect& dialect, MountOptions options) {
  if (!url.security && !url.flavors.empty()) {
    co_return co_await OpenByPreference(loop, workers, std::move(url), dialect, std::move(options));
  }
  Flavors accepted;
  OpenedServer opened = co_await OpenServer(loop, workers, url, dialect, options, accepted);
  if (opened || opened.error().status != Status::kWrongSecurity) co_return opened;
  if (url.security) co_return std::unexpected(NoCommonFlavor(url.host, accepted));
  if (accepted.empty()) accepted.assign(std::begin(kUsualFlavors), std::end(kUsualFlavors));
  for (const SecurityFlavor flavor : accepted) {
    url.security = flavor;
    Flavors ignored;
    opened = co_await OpenServer(loop, workers, url, dialect, options, ignored);
    if (opened) co_return opened;
    log::info("{} by sec={}", opened.error().message, NameOf(flavor));
  }
  co_return opened;
}

TreeServers::TreeServers(Loop& loop, Workers& workers, const Url& url, const Dialect& dialect, MountOptions options,
                         std::unique_ptr<ServerMount> home)
    : loop_(loop), workers_(workers), url_(url), dialect_(dialect), options_(std::move(options)), home_(*home) {
  options_.cancellation = &ending_;
  options_.shares_handles_with = nullptr;
  HandleMounted(servers_[KeyOf(home_.url(), false)], std::move(home));
}

void TreeServers::HandleMounted(Server& server, std::unique_ptr<ServerMount> mount) {
  server.mount = std::move(mount);
  server.ending = std::make_unique<Cancellation::Entry>(&ending_, [at = server.mount.get()] { at->Abort(); });
  server.mount->set_follow([this, at = server.mount.get()](uint64_t file_system) {
    if (follow_) follow_(*at, file_system);
  });
}

const std::optional<Entrance>& TreeServers::EntranceOf(const ServerMount& mount) const {
  const auto is_its = [&](const auto& each) { return each.second.mount.get() == &mount; };
  return std::ranges::find_if(servers_, is_its)->second.entrance;
}

uint64_t TreeServers::reconnections() const {
  uint64_t sum = 0;
  for (const auto& [key, server] : servers_) sum += server.mount ? server.mount->reconnections() : 0;
  return sum;
}

// A server that does not answer keeps none of the others waiting.
Task<void> TreeServers::Unmount() {
  UnderWay unmounts;
  const auto unmount = [](ServerMount& server, UnderWay& all) -> Task<void> {
    co_await server.Unmount();
    all.End();
  };
  for (auto& [key, server] : servers_) {
    if (!server.mount) continue;
    unmounts.Begin();
    Spawn(unmount(*server.mount, unmounts));
  }
  co_await unmounts.Ended();
}
// ---- ways ----

Task<Result<TreeServers::NodeAtServer>> TreeServers::Step(ServerMount& from, const Handle& directory,
                                                          std::string_view name, unsigned& followed) {
  Result<Node> found = co_await from.Lookup(directory, name);
  if (found) co_return NodeAtServer{.server = &from, .node = *std::move(found)};
  co_return co_await Onward(from, directory, name, found.error(), followed);
}

Task<Result<TreeServers::NodeAtServer>> TreeServers::Onward(ServerMount& from, const Handle& directory,
                                                            std::string_view name, const Error& why, unsigned& followed,
                                                            const Url* now) {
  if (why.status == Status::kMoved) {
    auto told = co_await from.GetLocations(directory, name);
    co_return co_await GoTo(from, name, std::move(told), followed, now);
  }
  if (why.status == Status::kWrongSecurity) co_return co_await Secure(from, directory, name);
  co_return std::unexpected(why);
}

// A file handle of one mount is good in every mount of the same server.
Task<Result<TreeServers::NodeAtServer>> TreeServers::Secure(ServerMount& from, const Handle& directory,
                                                            std::string_view name) {
  auto accepted = co_await from.GetFlavors(directory, name);
  if (!accepted) co_return std::unexpected(client::ErrorOf(Status::kWrongSecurity, name));
  Error failure = NoCommonFlavor(name, *accepted);
  if (url_.security) co_return std::unexpected(std::move(failure));
  const Entrance entrance{.directory = directory, .name = std::string(name)};
  const Flavors usable = nfs_protocol::PreferredOf(url_.flavors, *accepted);
  for (const SecurityFlavor flavor : usable) {
    if (flavor == FlavorOf(from.url())) continue;
    Url url = from.url();
    url.path = "/";
    url.security = flavor;
    auto server = co_await MountOf(url, true, &entrance);
    if (server) {
      Result<Node> found = co_await (*server)->Lookup(directory, name);
      if (found) co_return NodeAtServer{.server = *server, .node = *std::move(found)};
      failure = WithTrouble(std::move(found).error(), (*server)->trouble());
    } else {
      failure = std::move(server).error();
    }
    log::info("{} by sec={}", failure.message, NameOf(flavor));
  }
  co_return std::unexpected(std::move(failure));
}

Task<Result<TreeServers::NodeAtServer>> TreeServers::GoTo(ServerMount& from, std::string_view what,
                                                          Result<std::vector<Location>> told, unsigned& followed,
                                                          const Url* now) {
  if (++followed > kMostReferrals) co_return std::unexpected(client::ErrorOf(Status::kMoved, what));
  if (!told) co_return std::unexpected(WithTrouble(std::move(told).error(), from.trouble()));
  std::vector<Location>& locations = *told;
  const auto is_now = [&](const Location& each) {
    const Url url = UrlOf(from, each);
    return url.host == now->host && url.port == now->port;
  };
  const auto first = now ? std::ranges::find_if(locations, is_now) : locations.end();
  if (first != locations.end()) std::rotate(locations.begin(), first, first + 1);
  if (locations.empty()) {
    co_return std::unexpected(Error{fmt::format("{}: is on another server, but {} names no location that makes sense",
                                                what, ServerText(from.url())),
                                    std::nullopt, EREMOTE});
  }
  std::string reasons;
  for (size_t i = 0; i < locations.size(); ++i) {
    auto reached = co_await Reach(from, locations[i], i + 1 == locations.size(), followed);
    if (reached) co_return reached;
    if (ending_.cancelled()) co_return std::unexpected(Closing(what));
    if (i < kMostReasons) reasons += (i > 0 ? "; " : "") + reached.error().message;
  }
  if (locations.size() > kMostReasons) reasons += fmt::format("; and {} more", locations.size() - kMostReasons);
  co_return std::unexpected(
      Error{fmt::format("{}: cannot follow the referral: {}", what, reasons), std::nullopt, EREMOTE});
}

Url TreeServers::UrlOf(const ServerMount& from, const Location& location) const {
  Url url = url_;
  url.path = "/";
  if (location.host.empty()) {
    url.host = from.url().host;
    url.port = from.url().port;
  } else {
    url.host = location.host;
    url.port = location.port.value_or(Url::DefaultPort(url.protocol));
    if (url.tcp_port) url.tcp_port = Url::DefaultPort(Protocol::kTcp);
  }
  return url;
}

Task<Result<TreeServers::NodeAtServer>> TreeServers::Reach(const ServerMount& from, const Location& location,
                                                           bool is_last, unsigned& followed) {
  const Url url = UrlOf(from, location);
  PENSTOCK_CO_TRY(ServerMount* const server, co_await MountOf(url, is_last));
  auto reached = co_await Walk(*server, location.path, followed);
  if (reached) co_return reached;
  const Error why = WithTrouble(std::move(reached).error(), server->trouble());
  co_return std::unexpected(Error{fmt::format("{}: {}: {}", ServerText(url), PathText(location.path), Describe(why)),
                                  std::nullopt, why.number});
}

// Servers below may refer on.
Task<Result<TreeServers::NodeAtServer>> TreeServers::Walk(ServerMount& server, const std::vector<std::string>& path,
                                                          unsigned& followed) {
  NodeAtServer place{.server = &server, .node = {.handle = server.root(), .attributes = {}}};
  if (path.empty()) {
    PENSTOCK_CO_TRY(place.node.attributes, co_await server.GetAttributes(server.root(), "the root of the tree"));
  }
  for (const std::string& name : path) {
    PENSTOCK_CO_TRY(place, co_await Step(*place.server, place.node.handle, name, followed));
  }
  if (place.node.attributes.type != FileType::kDirectory) {
    co_return std::unexpected(client::ErrorOf(Status::kNotDirectory, PathText(path)));
  }
  co_return place;
}

Task<OpenedServer> TreeServers::OpenAt(const Url& url, const Entrance* entrance) {
  if (!entrance) co_return co_await OpenNegotiated(loop_, workers_, url, dialect_, options_);
  Flavors ignored;
  co_return co_await OpenServer(loop_, workers_, url, dialect_, options_, ignored, entrance);
}

Task<Result<ServerMount*>> TreeServers::MountOf(Url url, bool is_last, const Entrance* entrance) {
  Server& server = servers_[KeyOf(url, entrance != nullptr)];
  if (server.opening) {
    co_await server.changed;
  } else if (!server.mount) {
    server.opening = true;
    Result<void> answers;
    if (!is_last) answers = co_await Probe(url);
    if (answers) {
      OpenedServer opened = co_await OpenAt(url, entrance);
      if (opened) {
        if (entrance) server.entrance = *entrance;
        HandleMounted(server, *std::move(opened));
      } else {
        answers = std::unexpected(std::move(opened).error());
      }
    }
    if (!answers) server.failure = std::move(answers).error();
    server.opening = false;
    server.changed.Notify();
  }
  if (!server.mount) co_return std::unexpected(server.failure);
  co_return server.mount.get();
}

// A call of the mount may wait for minutes until a silent server answers. That is too long if another server can be
// tried.
Task<Result<void>> TreeServers::Probe(Url url) {
  url.recovery.LimitTo(kProbeLimit);
  ChannelOptions options;
  options.cancellation = &ending_;
  auto channel = co_await OpenChannel(loop_, workers_, url, options_.provider, options);
  if (!channel) co_return std::unexpected(NotConnected(std::move(channel).error(), ending_, ServerText(url)));
  const Cancellation::Entry entry(&ending_, [at = channel->get()] { at->Close(); });
  rpc::Client client(**channel, loop_.buffers(), rpc::RandomXid());
  auto answered = co_await client.Call<nfs4::NFSPROC4_NULL>({});
  // The channel must outlive the turn of the loop that delivered its reply.
  co_await Sleep(loop_, Duration::zero());
  if (!answered) co_return std::unexpected(ErrorOf(answered.error(), ServerText(url)));
  co_return Result<void>();
}
}  // namespace penstock::client::v4
