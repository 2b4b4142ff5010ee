// An open file of a tree of several servers. If its file system moves to another server, the file is opened again
// there, and the call that has noticed the move is repeated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/signal.h"
#include "client/file.h"
#include "client/mount.h"
#include "client/nfs4/mount.h"

namespace penstock::client::v4 {

// A file as it is open at one server. The mount outlives it.
struct FileAtServer {
  std::shared_ptr<client::File> file;
  Handle place;  // see TreeParts
  const ServerMount* server = nullptr;
};

// What a file needs of its tree.
class FileTree {
 public:
  // The server has answered NFS4ERR_MOVED. Opens the file, which the users of the tree know as `known`, where it is
  // now.
  virtual Task<Result<FileAtServer>> Reopen(Node known, FileAtServer before) = 0;
  // Turns attributes from a server into those that the users of the tree know.
  virtual Attributes Distinct(Attributes attributes, const ServerMount& server) const = 0;

 protected:
  ~FileTree() = default;
};

// `tree` outlives it. node() has the handles by which the users of the tree know objects. Errors tell why another
// server than that of the URL did not answer.
class TreeFile final : public client::File {
 public:
  TreeFile(FileTree& tree, FileAtServer at, Node known)
      : client::File(std::move(known), at.file->name()),
        tree_(tree),
        at_(std::make_shared<const FileAtServer>(std::move(at))) {}

  Task<Result<FetchReply>> Fetch(uint64_t offset, Bytes into) override;
  Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from, Stability stability) override;
  Task<Result<Verifier>> Commit() override;
  Task<Result<void>> SetSize(uint64_t size) override;
  std::optional<Attributes> attributes_at_open() const override;
  Task<Result<std::optional<uint64_t>>> Seek(uint64_t offset, Content content) override;
  Task<Result<void>> Allocate(uint64_t offset, uint64_t length) override;
  Task<Result<void>> Deallocate(uint64_t offset, uint64_t length) override;
  Task<Result<CopyReply>> CopyFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) override;
  Task<Result<void>> CloneFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) override;
  Task<Result<void>> Lock(std::string owner, ByteRange range, LockKind kind, Duration patience,
                          Cancellation* impatience) override;
  Task<Result<void>> Widen() override;
  Task<Result<void>> Unlock(std::string owner, ByteRange range) override;
  Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, ByteRange range, LockKind kind) override;
  Task<Result<void>> Close() override;

 private:
  using Pointer = std::shared_ptr<const FileAtServer>;

  // Makes `call(at)`, and makes it again where the file has moved to.
  template <class T, class Call>
  Task<Result<T>> Do(Call call);
  // The same for a call that concerns `source`, too: if one of them moves, the server cannot do it.
  template <class T, class Call>
  Task<Result<T>> Between(Pointer at, client::File& source, Call call);
  Task<Result<void>> MoveOn(Pointer from);
  static Error Explain(Error error, const FileAtServer& at);

  FileTree& tree_;
  Pointer at_;
  bool moving_ = false;
  Error failure_{};  // of the last attempt to follow a move
  Signal moved_;
};

}  // namespace penstock::client::v4
