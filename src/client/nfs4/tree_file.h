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
  ServerMount* server = nullptr;
};

class MovingFile;

// What a file needs of its tree.
class FileTree {
 public:
  // Registers open files, which the tree lets follow a move that it hears of.
  virtual void Add(MovingFile& file) = 0;
  virtual void Remove(MovingFile& file) = 0;
  // Between these calls a file follows a move in the background. The tree outlives that.
  virtual void BeginFollowing() = 0;
  virtual void EndFollowing() = 0;
  // The server has answered NFS4ERR_MOVED. Opens the file, which the users of the tree know as `known`, where it is
  // now.
  virtual Task<Result<FileAtServer>> Reopen(Node known, FileAtServer before) = 0;
  // The file is open at `after` now. Locks that it had at `before` are lost.
  virtual void HandleReopened(const FileAtServer& before, const FileAtServer& after) = 0;
  // The node that the users know as `known`, as the server at its place knows it.
  virtual Task<Node> Bare(Node known, Handle place) = 0;
  // Turns attributes from a server into those that the users of the tree know.
  virtual Attributes Distinct(Attributes attributes, const ServerMount& server) const = 0;

 protected:
  ~FileTree() = default;
};

// At which server a file is open. Shared with background tasks, which may outlive the user's file.
class MovingFile final : public std::enable_shared_from_this<MovingFile> {
 public:
  using Pointer = std::shared_ptr<const FileAtServer>;
  // `tree` outlives it. The users of the tree know the file as `known`.
  MovingFile(FileTree& tree, FileAtServer at, Node known)
      : tree_(tree), known_(std::move(known)), at_(std::make_shared<const FileAtServer>(std::move(at))) {
    tree_.Add(*this);
  }
  ~MovingFile() { tree_.Remove(*this); }
  MovingFile(const MovingFile&) = delete;
  MovingFile& operator=(const MovingFile&) = delete;

  FileTree& tree() const { return tree_; }
  const Pointer& at() const { return at_; }
  // For a call of the user: opens the file where it is now, unless it is not at `from` any more.
  Task<Result<void>> MoveOn(Pointer from);
  // The same for the tree, in the background; waits for an attempt that is under way. The user may close the file
  // meanwhile.
  static Task<void> Follow(std::weak_ptr<MovingFile> file, std::weak_ptr<const FileAtServer> from);
  // The user closes the file. Waits for the end of the user's other calls, and returns where the file is open.
  Task<Pointer> HandleClosing();

 private:
  static Task<Result<void>> Move(std::shared_ptr<MovingFile> file, Pointer from);

  FileTree& tree_;
  const Node known_;
  Pointer at_;
  bool moving_ = false;
  bool closed_ = false;
  size_t calls_ = 0;  // calls of the user that wait for a move
  Error failure_{};   // of the last attempt to follow a move
  Signal moved_;
};

// `tree` outlives it. node() has the handles by which the users of the tree know objects. Errors tell why another
// server than that of the URL did not answer.
class TreeFile final : public client::File {
 public:
  TreeFile(FileTree& tree, FileAtServer at, Node known)
      : client::File(known, at.file->name()),
        moving_(std::make_shared<MovingFile>(tree, std::move(at), std::move(known))) {}

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
  Task<Result<void>> Widen(Node now) override;
  Task<Result<void>> Unlock(std::string owner, ByteRange range) override;
  Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, ByteRange range, LockKind kind) override;
  Task<Result<void>> Close() override;

 private:
  using Pointer = MovingFile::Pointer;

  const Pointer& at() const { return moving_->at(); }
  // Makes `call(at)`, and makes it again where the file has moved to.
  template <class T, class Call>
  Task<Result<T>> Do(Call call);
  // The same for a call that concerns `source`, too: if one of them moves, the server cannot do it.
  template <class T, class Call>
  Task<Result<T>> Between(Pointer at, client::File& source, Call call);
  static Error Explain(Error error, const FileAtServer& at);

  const std::shared_ptr<MovingFile> moving_;
};

}  // namespace penstock::client::v4
