// An export of a server, mounted: NFS version 3 over RDMA or TCP.
#pragma once

#include <asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/task.h"
#include "client/error.h"
#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "nfs/v3/reply_bounds.h"
#include "protocol/nfs3.h"
#include "rdma/provider.h"
#include "rpc/client.h"

namespace penstock::client {

// A file as the server named and described it.
struct Node {
  nfs3::nfs_fh3 handle;
  nfs3::fattr3 attributes;
};

struct MountOptions {
  RetryPolicy retry;
  // For proto=rdma; outlives the mount.
  rdma::Provider* provider = nullptr;
};

// What the server would like, limited to what we can carry (FSINFO, RFC 1813 §3.3.19).
struct TransferSizes {
  uint32_t read = 4096;
  uint32_t write = 4096;
  uint32_t directory = 4096;
};

// Belongs to its loop. Calls may run side by side, as many as one likes; the mount must outlive them. What calls return
// refers to messages that it keeps alive by itself.
class Mount {
 public:
  // Opens the channel for `url`, asks the server's MOUNT service for the root of the export that url.path lies in (the longest
  // export that is a prefix of it), and learns its limits. `loop`, `workers` and options.provider outlive the mount; `workers`
  // look up the host's name.
  static Task<Result<std::unique_ptr<Mount>>> Open(Loop& loop, asio::thread_pool& workers, const Url& url,
                                                   MountOptions options);

  Loop& loop() { return loop_; }
  const Url& url() const { return url_; }
  const TransferSizes& sizes() const { return sizes_; }
  const nfs3::nfs_fh3& root() const { return root_; }
  // url.path, seen from the root of the export; without a leading '/'.
  const std::string& path() const { return path_; }
  uint64_t reconnections() const { return channel_.reconnections(); }

  // Executes one procedure; a status other than NFS3_OK is an Error that names `what` (a path, say). `destination`: where the
  // DDP-eligible result is to go, if anywhere; over RDMA it is placed there directly, over TCP it must be copied.
  template <class Procedure>
  Task<Result<rpc::Reply<typename Procedure::Results>>> Call(const typename Procedure::Arguments& arguments,
                                                             std::string_view what, Bytes destination = {});

  // Asks nothing of the server but an answer (procedure 0).
  Task<Result<void>> Ping();

  // The node at `path` below the root. Symlinks on the way are followed, the last component's too where `follow`; one that
  // leads out of the export is an error.
  Task<Result<Node>> Resolve(std::string path, bool follow = true);
  Task<Result<Node>> Lookup(const nfs3::nfs_fh3& directory, std::string_view name);
  Task<Result<nfs3::fattr3>> GetAttributes(const nfs3::nfs_fh3& object, std::string_view what);
  Task<Result<std::string>> ReadLink(const nfs3::nfs_fh3& symlink, std::string_view what);

  // The regular file `name`, made where it is not there, cut to nothing where it is.
  Task<Result<Node>> CreateFile(const nfs3::nfs_fh3& directory, std::string_view name, uint32_t mode);

  Task<Result<void>> Remove(const nfs3::nfs_fh3& directory, std::string_view name);

  struct ReadReply {
    uint32_t count = 0;
    bool eof = false;
  };
  // Up to into.size() octets, at most sizes().read, straight into `into` where the transport can.
  Task<Result<ReadReply>> Read(const nfs3::nfs_fh3& file, uint64_t offset, Bytes into, std::string_view what);

  // Unstable: Commit() afterwards, and write again where it does not give the same verifier. `from` stays where it is until
  // this is done; at most sizes().write octets.
  Task<Result<nfs3::WRITE3resok>> Write(const nfs3::nfs_fh3& file, uint64_t offset, ConstBytes from,
                                        std::string_view what);
  Task<Result<nfs3::writeverf3>> Commit(const nfs3::nfs_fh3& file, std::string_view what);

  struct Entry {
    std::string name;
    std::optional<nfs3::fattr3> attributes;
  };
  // Calls `entry` for everything in the directory but "." and "..", in the server's order.
  Task<Result<void>> List(const nfs3::nfs_fh3& directory, std::string_view what, std::function<void(Entry)> entry);

 private:
  Mount(Loop& loop, Url url, MountOptions options, ReconnectingChannel::Opener opener);

  Task<Result<void>> MountExport(asio::thread_pool& workers);
  Task<Result<void>> LearnSizes();
  Task<Result<Node>> LookupOrReadLink(const nfs3::nfs_fh3& directory, std::string_view name);

  Loop& loop_;
  const Url url_;
  ReconnectingChannel channel_;
  rpc::Client client_;
  nfs3::nfs_fh3 root_;
  std::string export_path_;
  std::string path_;
  TransferSizes sizes_;
};

// For people: "server: No such file or directory".
Error ErrorOf(nfs3::nfsstat3 status, std::string_view what);
Error ErrorOf(const rpc::Error& error, std::string_view what);

template <class Procedure>
Task<Result<rpc::Reply<typename Procedure::Results>>> Mount::Call(const typename Procedure::Arguments& arguments,
                                                                  std::string_view what, Bytes destination) {
  auto reply = co_await client_.Call<Procedure>(arguments, nfs::v3::ReplyBoundsOf<Procedure>(arguments, destination));
  if (!reply) co_return std::unexpected(ErrorOf(reply.error(), what));
  if (reply->results.status() != nfs3::nfsstat3::NFS3_OK)
    co_return std::unexpected(ErrorOf(reply->results.status(), what));
  co_return *std::move(reply);
}

}  // namespace penstock::client
