// The two ends of a copy: trees of files on this machine, or on a server. The copier knows only these interfaces, so
// that it copies in both directions, between servers, and between local directories.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/task.h"
#include "client/error.h"
#include "client/mount.h"
#include "copying/extras.h"

namespace penstock::copying {

using client::Attributes;
using client::Error;
using client::FileType;
using client::NewAttributes;
using client::Result;
using client::Status;

// Makes the error for an errno of this machine. The message is the reason only.
Error LocalError(int number);
// Returns the reason of an error, without the name of a file at its beginning.
std::string ReasonOf(const Error& error, std::string_view name);
// Whether the error says that the target has no room.
bool IsFull(const Error& error);
// Whether a name can be that of an entry in a directory. A server can send any text as a name.
bool IsEntryName(std::string_view name);

// The octets [begin, end) of a file.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const Extent&) const = default;
};

// An entry of a directory.
struct Entry {
  std::string name;
  Attributes attributes;
  // Of an entry on a server, if it is known.
  std::optional<client::Handle> handle{};
};

// The attributes of a file that a copy creates.
struct NewFile {
  uint32_t mode = 0600;  // less the umask on this machine
  // The new file replaces a file of this name in the same directory, and gets its owner, group, permissions and access
  // control list.
  std::optional<std::string> like{};
  // Set after the data. The size makes a hole at the end of the file.
  NewAttributes attributes{};
};

// An open regular file. Calls may run at the same time. Errors are reasons, without the name of the file.
class File {
 public:
  virtual ~File() = default;

  // The attributes when the file was opened.
  const Attributes& attributes() const { return attributes_; }
  // Identifies the file for CopyFrom().
  virtual const void* tree() const = 0;
  // How many buffers of its size a read needs: the one that the caller gives, and one in which the octets arrive.
  virtual unsigned buffers_per_read() const { return 1; }

  // Returns at most into.size() octets, and none only at the end of the file. They lie either at the beginning of
  // `into` or in memory that the slice keeps.
  virtual Task<Result<Slice>> Read(uint64_t offset, Bytes into) = 0;
  // Returns the number of octets, at least one. Sync() makes them stable.
  virtual Task<Result<uint32_t>> Write(uint64_t offset, ConstBytes from) = 0;
  // Returns the parts of `range` that may have data; the rest are holes.
  virtual Task<Result<std::vector<Extent>>> DataIn(Extent range) = 0;
  // Copies a part of `range` from `source` without moving its octets through this process. Returns the number of
  // octets, at least one, or nothing if the two files cannot do that.
  virtual Task<Result<std::optional<uint64_t>>> CopyFrom(File& source, Extent range) = 0;
  // Returns true if all octets are on stable storage whose writes had ended before the call. Returns false if some are
  // lost. Then all that were written since the last call that returned true was made must be written again, also those
  // that were written during this call.
  virtual Task<Result<bool>> Sync() = 0;
  // Makes later reads come from the storage and not from a cache, as far as this end can.
  virtual Task<Result<void>> ForgetCached() { co_return Result<void>(); }
  virtual Task<Result<void>> SetSize(uint64_t size) = 0;
  virtual Task<Result<void>> SetAttributes(const NewAttributes& attributes) = 0;
  // Call it once, when no other call is under way.
  virtual Task<Result<void>> Close() = 0;

 protected:
  Attributes attributes_;
};

// An open directory. It never follows a symbolic link, except where it says so. The copier checks IsEntryName() of all
// names. Calls may run at the same time.
class Directory : public std::enable_shared_from_this<Directory> {
 public:
  explicit Directory(std::string name) : name_(std::move(name)) {}
  virtual ~Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // The name in messages.
  const std::string& name() const { return name_; }
  // The name of an entry in messages.
  std::string NameOf(std::string_view entry) const;
  // Equal for two objects of the same directory, and for nothing else.
  virtual std::string identity() const = 0;
  // Equal for all directories of a tree.
  virtual const void* tree() const = 0;
  // As in File.
  virtual unsigned buffers_per_read() const { return 1; }

  virtual Task<Result<std::vector<Entry>>> List() = 0;
  virtual Task<Result<Entry>> Find(std::string name) = 0;
  virtual Task<Result<Attributes>> GetAttributes() = 0;
  virtual Task<Result<void>> SetAttributes(NewAttributes attributes) = 0;

  virtual Task<Result<std::shared_ptr<Directory>>> OpenDirectory(Entry entry) = 0;
  // Fails with Status::kExists if the name is taken.
  virtual Task<Result<std::shared_ptr<Directory>>> MakeDirectory(std::string name, uint32_t mode) = 0;

  // Opens a regular file for reading.
  virtual Task<Result<std::unique_ptr<File>>> Open(Entry entry) = 0;
  // Opens a regular file for reading and writing.
  virtual Task<Result<std::unique_ptr<File>>> OpenForWriting(std::string name) = 0;
  // Creates a file whose name was free, without NewFile::attributes.
  virtual Task<Result<std::unique_ptr<File>>> Create(std::string name, NewFile file) = 0;

  struct Content {
    uint32_t count = 0;
    Attributes attributes;  // when the file was opened
  };
  // Reads a regular file from its beginning, until `into` is full or the file ends.
  virtual Task<Result<Content>> ReadWhole(Entry entry, Bytes into) = 0;
  // Creates a file whose name was free, writes `octets`, and sets the attributes. After success Publish() can follow.
  virtual Task<Result<void>> WriteWhole(std::string name, NewFile file, ConstBytes octets) = 0;
  // Gives the finished file `temporary` the name `name`, and replaces what has it, unless that is a directory. Before,
  // its data are on stable storage. `octets` is its size.
  virtual Task<Result<void>> Publish(std::string temporary, std::string name, uint64_t octets) = 0;

  // Opens the extras of an entry that is no symbolic link, or of the directory itself.
  virtual Task<Result<std::unique_ptr<Extras>>> OpenExtras(Entry entry) = 0;
  virtual Task<Result<std::unique_ptr<Extras>>> OpenOwnExtras() = 0;

  virtual Task<Result<std::string>> ReadLink(Entry entry) = 0;
  virtual Task<Result<void>> MakeSymlink(std::string name, std::string text) = 0;
  // Makes a FIFO, a socket, or a device node.
  virtual Task<Result<void>> MakeNode(std::string name, Attributes attributes) = 0;
  // Gives the entry `target` of `from`, a directory of the same tree, another name in this directory.
  virtual Task<Result<void>> Link(Directory& from, std::string target, std::string name) = 0;
  virtual Task<Result<void>> Rename(std::string from, std::string to) = 0;
  // For an entry that is not a regular file that this copy has written.
  virtual Task<Result<void>> SetAttributesOf(std::string name, NewAttributes attributes) = 0;
  virtual Task<Result<void>> Remove(std::string name) = 0;
  virtual Task<Result<void>> RemoveDirectory(std::string name) = 0;

 private:
  const std::string name_;
};

// What the directories of one tree have in common.
class Tree {
 public:
  virtual ~Tree() = default;
  // Makes calls of Publish() return soon that wait for others.
  virtual void Flush() {}
  // Returns when all changes are on stable storage.
  virtual Task<Result<void>> Finish() { co_return Result<void>(); }
};

}  // namespace penstock::copying
