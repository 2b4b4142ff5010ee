// penstock mount: mounts a server's tree into a directory of this host, by FUSE.
#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/log.h"
#include "base/signal.h"
#include "base/state_directory.h"
#include "cli/background.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/logging.h"
#include "cli/mount_attempts.h"
#include "client/set_up.h"
#include "fuse/file_system.h"
#include "fuse/owners.h"
#include "fuse/session.h"
#include "fuse/users.h"
#include "idmap/domain.h"
#include "idmap/lookups.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Result;

struct MountCommandOptions : ClientOptions {
  std::string source;
  std::string directory;
  bool foreground = false;
  bool only_checks = false;
};

// Ends the tree on a signal: once politely, so that all data reach the server; twice at once.
class EndSignals {
 public:
  EndSignals(Loop& loop, std::function<void()> unmount, std::function<void()> abort)
      : signals_(loop.context(), SIGINT, SIGTERM, SIGHUP), unmount_(std::move(unmount)), abort_(std::move(abort)) {
    Wait();
  }
  void Stop() { signals_.cancel(); }

 private:
  void Wait() {
    signals_.async_wait([this](const asio::error_code& error, int) {
      if (error) return;
      Wait();
      // It may end this object.
      const std::function<void()> end = seen_++ == 0 ? unmount_ : abort_;
      end();
    });
  }

  asio::signal_set signals_;
  const std::function<void()> unmount_;
  const std::function<void()> abort_;
  int seen_ = 0;
};

bool HasFlag(const client::Url& url, std::string_view flag) {
  return std::ranges::find(url.file_system_flags, flag) != url.file_system_flags.end();
}

// Whether each user has a mount of their own: only root can tell the server who asks.
bool IsForUsers(const client::Url& url) { return HasFlag(url, "allow_other") && ::geteuid() == 0 && !url.uid; }

// The mounts of other users change directories as other clients do, and the programs of one host see that at once.
Duration TrustInDirectories(const client::Url& url) {
  const client::CacheOptions& cache = url.cache;
  const bool knows_names = cache.names == client::CacheOptions::Names::kAll && cache.attributes;
  const bool trusts = knows_names && cache.directory_min > 0 && !IsForUsers(url);
  return trusts ? std::chrono::milliseconds(100) : Duration::zero();
}

fuse::FileSystemOptions OptionsFor(const client::Mount& mount) {
  const client::Url& url = mount.url();
  const client::CacheOptions& cache = url.cache;
  fuse::FileSystemOptions options;
  // What the kernel has cached for one user, another one may ask it for.
  options.checks_modes = HasFlag(url, "allow_other");
  using std::chrono::seconds;
  if (cache.attributes) {
    options.times = {.file_least = seconds(cache.file_min),
                     .file_most = seconds(cache.file_max),
                     .directory_least = seconds(cache.directory_min),
                     .directory_most = seconds(cache.directory_max)};
  } else {
    options.times = {};
    options.times.file_least = options.times.file_most = Duration::zero();
    options.times.directory_least = options.times.directory_most = Duration::zero();
    options.writes_behind = false;
  }
  using Names = client::CacheOptions::Names;
  options.caches_names = cache.names != Names::kNone;
  options.caches_absent_names = cache.names == Names::kAll;
  options.close_to_open = cache.close_to_open;
  options.posix_locks = url.locks.posix_on_server;
  options.flock_locks = url.locks.flock_on_server;
  return options;
}

fuse::SessionOptions SessionOptionsFor(const client::Url& url, const MountCommandOptions& options) {
  fuse::SessionOptions session{.source = options.source, .options = url.file_system_flags};
  if (url.read_only) session.options.emplace_back("ro");
  return session;
}

SetupResult<void> CheckDirectory(const std::string& directory) {
  struct stat status{};
  const int error = ::stat(directory.c_str(), &status) != 0 ? errno : S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
  if (error == 0) return {};
  return std::unexpected(SetupError{fmt::format("{}: {}", directory, DescribeErrno(error)), error});
}

using Opened = Result<std::unique_ptr<client::Mount>>;

// Makes one attempt to mount. If a later one may succeed, the errno of the error is one of those that
// MountAttempts::HandleFailure() knows.
Task<Opened> OpenOnce(ClientRuntime& runtime, const client::Url& url, const std::string& directory,
                      client::MountOptions mount_options, Duration limit) {
  const auto usable = CheckDirectory(directory);
  if (!usable) {
    // nfs(5): in the background a missing directory counts as a server that does not answer.
    const bool may_appear = url.in_background && usable.error().number == ENOENT;
    co_return std::unexpected(
        Error{usable.error().message, std::nullopt, may_appear ? ETIMEDOUT : usable.error().number});
  }
  Cancellation late;
  mount_options.cancellation = &late;
  const auto timer = runtime.loop().MakeTimer([&late] { late.Cancel(); });
  timer->ExpireAfter(limit);
  Opened opened = co_await runtime.OpenMount(url, std::move(mount_options));
  timer->Cancel();
  if (opened) co_return opened;
  if (late.cancelled()) {
    co_return std::unexpected(
        Error{fmt::format("{} port {}: the server does not answer", url.host, url.port), std::nullopt, ETIMEDOUT});
  }
  if (opened.error().number != EHOSTUNREACH) co_return opened;
  const auto ask = [host = url.host] { return IsUnknownHost(host); };
  const bool is_unknown = co_await Offload(runtime.loop(), runtime.workers(), ask);
  if (is_unknown) opened.error().number = ENXIO;
  co_return opened;
}

// Mounts as `bg`, `fg` and `retry` say.
Task<Opened> OpenPatiently(ClientRuntime& runtime, const client::Url& url, const MountCommandOptions& options,
                           Background& background) {
  Loop& loop = runtime.loop();
  const client::MountOptions mount_options = runtime.MountOptionsFor(url);
  MountAttempts attempts(url, loop.Now());
  for (bool was_told = false;; was_told = true) {
    Opened opened = co_await OpenOnce(runtime, url, options.directory, mount_options, attempts.attempt_limit());
    if (opened) co_return opened;
    const auto delay = attempts.HandleFailure(opened.error(), loop.Now());
    if (!delay) co_return opened;
    if (!was_told) {
      log::warn("{}; trying again for {}{}", opened.error().message, attempts.PatienceText(),
                url.in_background ? ", in the background" : "");
      if (url.in_background) background.Ready();
      if (background.is_away()) LogToSyslog();
    }
    co_await Sleep(loop, *delay);
  }
}

Task<Result<void>> Serve(ClientRuntime& runtime, client::Mount& mount, const MountCommandOptions& options,
                         Background& background) {
  Loop& loop = runtime.loop();
  PENSTOCK_CO_TRY(const client::Node root, co_await mount.Resolve(mount.path()));
  if (root.attributes.type != client::FileType::kDirectory) {
    co_return std::unexpected(client::ErrorOf(client::Status::kNotDirectory, options.source));
  }
  const std::string domain = co_await Offload(loop, runtime.workers(), [] { return idmap::FindDomain().name; });
  idmap::Lookups lookups(&idmap::AskHost, loop, idmap::Lookups::OnThreads());
  fuse::Owners owners(loop, lookups, domain);
  fuse::Users::Open open;
  Cancellation ending;
  if (IsForUsers(mount.url())) {
    client::MountOptions for_users = runtime.MountOptionsFor(mount.url());
    for_users.shares_handles_with = &mount;
    for_users.waits_for_server = true;
    for_users.cancellation = &ending;
    open = [&runtime, &mount, for_users](fuse::User user) -> Task<Result<std::unique_ptr<client::Mount>>> {
      client::Url url = mount.url();
      url.uid = user.uid;
      url.gid = user.gid;
      url.groups = std::move(user.groups);
      co_return co_await client::Mount::Open(runtime.loop(), runtime.workers(), url, for_users);
    };
  }
  fuse::Users users(loop, mount, {.uid = ::geteuid(), .gid = ::getegid(), .groups = client::SupplementaryGroups()},
                    std::move(open));
  fuse::FileSystemOptions file_options = OptionsFor(mount);
  const auto space = co_await mount.GetSpace(root.handle, options.source);
  if (space) file_options.longest_name = fuse::LongestName(*space);
  fuse::FileSystem files(loop, runtime.workers(), users, owners, root, file_options);
  const fuse::SessionOptions session_options = SessionOptionsFor(mount.url(), options);
  OneShot<> ended;
  const auto end = [&ended] {
    if (!ended.is_set()) ended.Set();
  };
  auto session = fuse::Session::Mount(loop, files, options.directory, session_options, end);
  if (!session) co_return std::unexpected(Error{session.error().message, std::nullopt, session.error().number});
  EndSignals signals(
      loop,
      [&] {
        (*session)->Unmount();
        end();
      },
      [&] {
        users.Abort();
        ending.Cancel();
        mount.Abort();
      });
  background.Ready();
  if (!options.foreground) LogToSyslog();
  log::info("{} is mounted at {}", options.source, options.directory);
  co_await ended;
  log::info("{} is no longer mounted at {}", options.source, options.directory);
  const Result<void> finished = co_await files.Finish();
  if (!finished) runtime.Report({fmt::format("{}: {}", options.source, finished.error().message), std::nullopt, EIO});
  co_await users.Unmount();
  signals.Stop();
  co_return Result<void>();
}

// A URL, or HOST:/PATH as mount(8) has it.
std::string UrlOf(const std::string& source) {
  const size_t colon = source.find(source.starts_with('[') ? "]:/" : ":/");
  if (client::Url::LooksLikeOne(source) || colon == source.npos || colon == 0) return source;
  const size_t path = source.find('/', colon);
  return "nfs://" + source.substr(0, path - 1) + source.substr(path);
}

Task<Result<void>> MountAndServe(ClientRuntime& runtime, const client::Url& url, const MountCommandOptions& options,
                                 Background& background) {
  auto opened = co_await OpenPatiently(runtime, url, options, background);
  Result<void> served;
  if (opened) {
    const ClientRuntime::Use serve = [&](client::Mount& mount) { return Serve(runtime, mount, options, background); };
    served = co_await runtime.UseMount(*std::move(opened), serve);
  } else {
    served = std::unexpected(std::move(opened).error());
  }
  // Nobody reads its standard error any more.
  if (!served && background.is_away()) log::error("{}", served.error().message);
  co_return served;
}

int MountTree(MountCommandOptions options) {
  // Programs do not expect that a file system gives up (nfs(5)).
  auto url = ParseUrl(UrlOf(options.source), options, {{.name = "hard"}});
  if (!url) return PrintUsageError(url.error().message);
  if (options.foreground) url->in_background = false;
  const auto usable = CheckDirectory(options.directory);
  const bool may_appear = url->in_background && !usable && usable.error().number == ENOENT;
  if (!usable && !may_appear) return PrintError(usable.error().message);
  if (options.only_checks) return 0;
  // A process in the background leaves its directory.
  std::error_code error;
  const auto directory = std::filesystem::absolute(options.directory, error);
  if (error) return PrintError(fmt::format("{}: {}", options.directory, error.message()));
  options.directory = directory;
  Background background;
  if (!options.foreground) {
    // Before any thread.
    if (const auto code = background.Start()) return *code;
  }
  ClientRuntime runtime(options.trace, options.rdma, options.kerberos);
  runtime.set_lock_records(DefaultStateDirectory() / "client-locks");
  runtime.set_trust_in_directories(TrustInDirectories(*url));
  return runtime.Run(MountAndServe(runtime, *url, options, background));
}

}  // namespace

Command AddMount(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("mount", "Mount a directory of an NFS server, by FUSE");
  const auto options = std::make_shared<MountCommandOptions>();
  command->add_option("SOURCE", options->source, "An nfs:// URL, or HOST:/PATH")->required();
  command->add_option("DIRECTORY", options->directory, "The directory of this host where the tree appears")->required();
  command->add_flag("-f,--foreground", options->foreground, "Stay in the foreground, until the tree is unmounted");
  command->add_flag("--fake", options->only_checks, "Only check the command line");
  AddClientOptions(*command, *options);
  SetFooter(
      *command,
      "The command ends when the tree is there; a process in the background serves it until `penstock umount`, and "
      "logs\n"
      "to the log of this host, syslog(3): with -v also how it recovers from lost connections and restarts. As\n"
      "mount.penstock, the program takes the arguments of mount(8), so that fstab(5) and autofs(5) can name the type\n"
      "penstock.",
      {"# Mount over RDMA, as any user", "penstock mount 'nfs://server.example/home?proto=rdma' ./home",
       "# Mount for all users, with options as nfs(5) has them",
       "penstock mount -o vers=4.2,allow_other,actimeo=10 server.example:/home /mnt"});
  return {command, [options] { return MountTree(*options); }};
}

namespace {

struct UnmountOptions {
  std::string directory;
  bool lazy = false;
};

int UnmountTree(const UnmountOptions& options) {
  if (::geteuid() == 0) {
    if (::umount2(options.directory.c_str(), options.lazy ? MNT_DETACH : 0) == 0) return 0;
    // umount(2)
    const std::string why = errno == EINVAL  ? "nothing is mounted there"
                            : errno == EBUSY ? "a program uses the tree; -l unmounts it when no program does"
                                             : DescribeErrno(errno);
    return PrintError(fmt::format("{}: {}", options.directory, why));
  }
  const char* const flags = options.lazy ? "-uz" : "-u";
  ::execlp("fusermount3", "fusermount3", flags, "--", options.directory.c_str(), nullptr);
  return PrintError(fmt::format("fusermount3: {}", DescribeErrno(errno)));
}

}  // namespace

Command AddUnmount(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("umount", "Unmount what penstock mount has mounted");
  const auto options = std::make_shared<UnmountOptions>();
  command->add_option("DIRECTORY", options->directory, "The directory where the tree appears")->required();
  command->add_flag("-l,--lazy", options->lazy, "Take the tree away now, although programs still use it");
  SetFooter(*command, "",
            {"# Unmount a tree", "penstock umount ./home", "# Take a tree away that programs still use",
             "penstock umount --lazy ./home"});
  return {command, [options] { return UnmountTree(*options); }};
}

}  // namespace penstock::cli
