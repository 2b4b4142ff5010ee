#include "client/mount.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "client/connect.h"
#include "protocol/mount.h"

namespace penstock::client {
namespace {

using nfs3::nfsstat3;

constexpr uint32_t kLargestTransfer = 1 << 20;
constexpr uint32_t kLargestDirectory = 64 << 10;

rpc::Xid RandomXid() { return rpc::Xid(std::random_device()()); }

std::string HostName() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

rpc::ClientCredential CredentialOf(const Url& url) {
  return rpc::ClientCredential({.machine = HostName(),
                                .uid = url.uid.value_or(::geteuid()),
                                .gid = url.gid.value_or(::getegid()),
                                .groups = {}});
}

// What is left of `path` below `prefix`, without a leading '/'; nothing where it does not lie below.
std::optional<std::string_view> Below(std::string_view path, std::string_view prefix) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  if (!path.empty() && !path.starts_with('/')) return std::nullopt;
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return path;
}

std::string_view Describe(nfsstat3 status) {
  switch (status) {
    case nfsstat3::NFS3_OK:
      return "no error";
    case nfsstat3::NFS3ERR_PERM:
      return "not permitted";
    case nfsstat3::NFS3ERR_NOENT:
      return "no such file or directory";
    case nfsstat3::NFS3ERR_IO:
      return "input/output error on the server";
    case nfsstat3::NFS3ERR_NXIO:
      return "no such device";
    case nfsstat3::NFS3ERR_ACCES:
      return "permission denied";
    case nfsstat3::NFS3ERR_EXIST:
      return "exists already";
    case nfsstat3::NFS3ERR_XDEV:
      return "on another file system";
    case nfsstat3::NFS3ERR_NODEV:
      return "no such device";
    case nfsstat3::NFS3ERR_NOTDIR:
      return "not a directory";
    case nfsstat3::NFS3ERR_ISDIR:
      return "is a directory";
    case nfsstat3::NFS3ERR_INVAL:
      return "invalid argument";
    case nfsstat3::NFS3ERR_FBIG:
      return "file too large";
    case nfsstat3::NFS3ERR_NOSPC:
      return "no space left on the server";
    case nfsstat3::NFS3ERR_ROFS:
      return "read-only file system";
    case nfsstat3::NFS3ERR_MLINK:
      return "too many links";
    case nfsstat3::NFS3ERR_NAMETOOLONG:
      return "name too long";
    case nfsstat3::NFS3ERR_NOTEMPTY:
      return "directory not empty";
    case nfsstat3::NFS3ERR_DQUOT:
      return "quota exceeded";
    case nfsstat3::NFS3ERR_STALE:
      return "stale file handle";
    case nfsstat3::NFS3ERR_REMOTE:
      return "is remote to the server";
    case nfsstat3::NFS3ERR_BADHANDLE:
      return "bad file handle";
    case nfsstat3::NFS3ERR_NOT_SYNC:
      return "changed meanwhile";
    case nfsstat3::NFS3ERR_BAD_COOKIE:
      return "the directory changed while it was read";
    case nfsstat3::NFS3ERR_NOTSUPP:
      return "not supported by the server";
    case nfsstat3::NFS3ERR_TOOSMALL:
      return "buffer too small";
    case nfsstat3::NFS3ERR_SERVERFAULT:
      return "server fault";
    case nfsstat3::NFS3ERR_BADTYPE:
      return "type not supported by the server";
    case nfsstat3::NFS3ERR_JUKEBOX:
      return "not available now, try again later";
  }
  return "unknown error";
}

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

RetryPolicy Limited(RetryPolicy policy, const Url& url) {
  policy.give_up_after = std::min<Duration>(policy.give_up_after, std::chrono::seconds(url.timeout));
  return policy;
}

}  // namespace

Error ErrorOf(nfsstat3 status, std::string_view what) {
  return {fmt::format("{}: {}", what, Describe(status)), status};
}
Error ErrorOf(const rpc::Error& error, std::string_view what) {
  return {fmt::format("{}: {}", what, rpc::Describe(error)), std::nullopt};
}

Mount::Mount(Loop& loop, Url url, MountOptions options, ReconnectingChannel::Opener opener)
    : loop_(loop),
      url_(std::move(url)),
      channel_(loop, std::move(opener), Limited(options.retry, url_)),
      client_(channel_, loop.buffers(), RandomXid(), CredentialOf(url_)) {}

Task<Result<std::unique_ptr<Mount>>> Mount::Open(Loop& loop, asio::thread_pool& workers, const Url& url,
                                                 MountOptions options) {
  ReconnectingChannel::Opener opener = [&loop, &workers, url, provider = options.provider] {
    return OpenChannel(loop, workers, url, provider);
  };
  std::unique_ptr<Mount> mount(new Mount(loop, url, options, std::move(opener)));
  auto connected = co_await mount->channel_.Connect();
  if (!connected) co_return std::unexpected(Error{std::move(connected).error(), std::nullopt});
  PENSTOCK_CO_CHECK(co_await mount->MountExport(workers));
  PENSTOCK_CO_CHECK(co_await mount->LearnSizes());
  co_return mount;
}

Task<Result<void>> Mount::MountExport(asio::thread_pool& workers) {
  Url url = url_;
  url.protocol = Protocol::kTcp;
  url.port = url_.mount_port;
  auto channel = co_await OpenChannel(loop_, workers, url, nullptr);
  if (!channel) co_return std::unexpected(Error{fmt::format("MOUNT: {}", channel.error()), std::nullopt});
  rpc::Client mount_client(**channel, loop_.buffers(), RandomXid(), CredentialOf(url_));

  // A bound of our own for lists that have none in the protocol.
  constexpr size_t kLargestList = 256 << 10;
  auto exports = co_await mount_client.Call<mount3::MOUNTPROC3_EXPORT>({}, {.open = kLargestList, .results = {}});
  if (!exports) co_return std::unexpected(ErrorOf(exports.error(), url_.host));
  for (const mount3::exportnode& node : exports->results) {
    const auto below = Below(url_.path, node.ex_dir);
    if (below && (export_path_.empty() || node.ex_dir.size() > export_path_.size())) {
      export_path_ = node.ex_dir;
      path_ = *below;
    }
  }
  if (export_path_.empty()) {
    co_return std::unexpected(
        Error{fmt::format("{}: {} is not in any of the server's exports", url_.host, url_.path), std::nullopt});
  }
  auto mounted = co_await mount_client.Call<mount3::MOUNTPROC3_MNT>(export_path_, {.open = 1024, .results = {}});
  if (!mounted) co_return std::unexpected(ErrorOf(mounted.error(), url_.host));
  if (mounted->results.fhs_status() != mount3::mountstat3::MNT3_OK) {
    co_return std::unexpected(
        Error{fmt::format("{}: {}", export_path_, Describe(mounted->results.fhs_status())), std::nullopt});
  }
  root_.data.Assign(mounted->results.mountinfo().fhandle.bytes());
  // The server's list of mounts is a courtesy (RFC 1813 §5.2.3): a client of files has nothing mounted.
  (void)co_await mount_client.Call<mount3::MOUNTPROC3_UMNT>(export_path_);
  // Its channel goes in another turn than the one in which its last reply came.
  co_await Sleep(loop_, Duration::zero());
  co_return Result<void>();
}

Task<Result<void>> Mount::LearnSizes() {
  const nfs3::FSINFO3args arguments{root_};
  auto reply = co_await Call<nfs3::NFSPROC3_FSINFO>(arguments, url_.path);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::FSINFO3resok& limits = reply->results.resok();
  const auto choose = [](uint32_t most, uint32_t ours) { return std::clamp(most, uint32_t{512}, ours); };
  sizes_.read = choose(limits.rtmax, kLargestTransfer);
  sizes_.write = choose(limits.wtmax, kLargestTransfer);
  sizes_.directory = choose(limits.dtpref, kLargestDirectory);
  co_return Result<void>();
}

Task<Result<void>> Mount::Ping() {
  auto reply = co_await client_.Call<nfs3::NFSPROC3_NULL>({});
  if (!reply) co_return std::unexpected(ErrorOf(reply.error(), url_.host));
  co_return Result<void>();
}

Task<Result<Node>> Mount::Lookup(const nfs3::nfs_fh3& directory, std::string_view name) {
  const nfs3::LOOKUP3args arguments{{directory, name}};
  auto reply = co_await Call<nfs3::NFSPROC3_LOOKUP>(arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::LOOKUP3resok& found = reply->results.resok();
  Node node{found.object, {}};
  if (found.obj_attributes) {
    node.attributes = *found.obj_attributes;
  } else {
    PENSTOCK_CO_TRY(node.attributes, co_await GetAttributes(node.handle, name));
  }
  co_return node;
}

Task<Result<nfs3::fattr3>> Mount::GetAttributes(const nfs3::nfs_fh3& object, std::string_view what) {
  const nfs3::GETATTR3args arguments{object};
  auto reply = co_await Call<nfs3::NFSPROC3_GETATTR>(arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return reply->results.resok().obj_attributes;
}

Task<Result<std::string>> Mount::ReadLink(const nfs3::nfs_fh3& symlink, std::string_view what) {
  const nfs3::READLINK3args arguments{symlink};
  auto reply = co_await Call<nfs3::NFSPROC3_READLINK>(arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return std::string(reply->results.resok().data.text());
}

Task<Result<Node>> Mount::Resolve(std::string path, bool follow) {
  constexpr int kMostLinks = 40;
  PENSTOCK_CO_TRY(const nfs3::fattr3 root, co_await GetAttributes(root_, url_.path));
  Node node{root_, root};
  std::string rest = path;
  int links = 0;
  for (;;) {
    rest.erase(0, std::min(rest.find_first_not_of('/'), rest.size()));
    if (rest.empty()) co_return node;
    const size_t slash = rest.find('/');
    const std::string name = rest.substr(0, slash);
    rest.erase(0, name.size());
    auto found = co_await Lookup(node.handle, name);
    if (!found) {
      if (found.error().status) co_return std::unexpected(ErrorOf(*found.error().status, path));
      co_return std::unexpected(std::move(found).error());
    }
    const bool last = rest.find_first_not_of('/') == rest.npos;
    if (found->attributes.type != nfs3::ftype3::NF3LNK || (last && !follow)) {
      node = *found;
      continue;
    }
    if (++links > kMostLinks) co_return std::unexpected(Error{path + ": too many symbolic links", std::nullopt});
    PENSTOCK_CO_TRY(std::string target, co_await ReadLink(found->handle, path));
    if (target.starts_with('/')) {
      const auto below = Below(target, export_path_);
      if (!below) co_return std::unexpected(Error{path + ": a symbolic link leads out of the export", std::nullopt});
      target = *below;
      node = {root_, root};
    }
    rest = target + "/" + rest;
  }
}

Task<Result<Node>> Mount::CreateFile(const nfs3::nfs_fh3& directory, std::string_view name, uint32_t mode) {
  nfs3::sattr3 attributes;
  attributes.mode = mode;
  attributes.size = 0;
  const nfs3::CREATE3args arguments{{directory, name}, {nfs3::createmode3::UNCHECKED, attributes}};
  auto reply = co_await Call<nfs3::NFSPROC3_CREATE>(arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::CREATE3resok& created = reply->results.resok();
  if (!created.obj || !created.obj_attributes) co_return co_await Lookup(directory, name);
  co_return Node{*created.obj, *created.obj_attributes};
}

Task<Result<void>> Mount::Remove(const nfs3::nfs_fh3& directory, std::string_view name) {
  const nfs3::REMOVE3args arguments{{directory, name}};
  auto reply = co_await Call<nfs3::NFSPROC3_REMOVE>(arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

Task<Result<Mount::ReadReply>> Mount::Read(const nfs3::nfs_fh3& file, uint64_t offset, Bytes into,
                                           std::string_view what) {
  const nfs3::READ3args arguments{file, offset, static_cast<uint32_t>(std::min<size_t>(into.size(), sizes_.read))};
  auto reply = co_await Call<nfs3::NFSPROC3_READ>(arguments, what, into);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::READ3resok& read = reply->results.resok();
  const ConstBytes data = read.data.bytes();
  const bool ends = read.eof || arguments.count == 0;
  if (data.size() > arguments.count || data.size() != read.count || (read.count == 0 && !ends)) {
    co_return std::unexpected(Error{fmt::format("{}: the server's READ reply contradicts itself", what), std::nullopt});
  }
  if (data.data() != into.data()) CopyBytes(into, data);
  co_return ReadReply{read.count, read.eof};
}

Task<Result<nfs3::WRITE3resok>> Mount::Write(const nfs3::nfs_fh3& file, uint64_t offset, ConstBytes from,
                                             std::string_view what) {
  const ConstBytes part = from.first(std::min<size_t>(from.size(), sizes_.write));
  const nfs3::WRITE3args arguments{file, offset, static_cast<uint32_t>(part.size()), nfs3::stable_how::UNSTABLE,
                                   xdr::Payload<xdr::kUnbounded>::Borrowed(part)};
  auto reply = co_await Call<nfs3::NFSPROC3_WRITE>(arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::WRITE3resok& written = reply->results.resok();
  if (written.count > part.size() || (written.count == 0 && !part.empty())) {
    co_return std::unexpected(
        Error{fmt::format("{}: the server's WRITE reply contradicts itself", what), std::nullopt});
  }
  co_return written;
}

Task<Result<nfs3::writeverf3>> Mount::Commit(const nfs3::nfs_fh3& file, std::string_view what) {
  const nfs3::COMMIT3args arguments{file, 0, 0};
  auto reply = co_await Call<nfs3::NFSPROC3_COMMIT>(arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return reply->results.resok().verf;
}

Task<Result<void>> Mount::List(const nfs3::nfs_fh3& directory, std::string_view what,
                               std::function<void(Entry)> entry) {
  nfs3::READDIRPLUS3args arguments{directory, 0, {}, sizes_.directory, sizes_.directory};
  for (;;) {
    auto reply = co_await Call<nfs3::NFSPROC3_READDIRPLUS>(arguments, what);
    if (!reply) co_return std::unexpected(std::move(reply).error());
    const nfs3::READDIRPLUS3resok& listed = reply->results.resok();
    const nfs3::cookie3 before = arguments.cookie;
    for (const nfs3::entryplus3& found : listed.reply.entries) {
      arguments.cookie = found.cookie;
      const std::string_view name = found.name;
      if (name == "." || name == "..") continue;
      entry({std::string(name), found.name_attributes});
    }
    arguments.cookieverf = listed.cookieverf;
    if (listed.reply.eof) co_return Result<void>();
    if (arguments.cookie == before) {
      co_return std::unexpected(Error{fmt::format("{}: the server lists it without an end", what), std::nullopt});
    }
  }
}

}  // namespace penstock::client
