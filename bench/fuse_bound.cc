// Mounts a tree that lives in the memory of this process, and answers each request at once: no server, no network. What
// bench/mounts/compare measures in it is the most that any file system in user space can reach on this machine.
//
//   fuse_bound DIR     until SIGINT, SIGTERM or `fusermount3 -u DIR`
#define FUSE_USE_VERSION 34
#include <fuse_lowlevel.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr double kTrusted = 1;  // seconds for which the kernel keeps names and attributes
constexpr unsigned kLongest = 1 << 20;

struct Node {
  struct stat status{};
  std::vector<char> octets;
  std::map<std::string, fuse_ino_t> names;  // of a directory
};

// No node is ever destroyed, because the kernel may still know it.
std::unordered_map<fuse_ino_t, std::unique_ptr<Node>> nodes;

Node& At(fuse_ino_t number) { return *nodes.at(number); }

Node& MakeNode(mode_t mode) {
  const fuse_ino_t number = nodes.size() + FUSE_ROOT_ID;
  Node& node = *nodes.emplace(number, std::make_unique<Node>()).first->second;
  node.status.st_ino = number;
  node.status.st_mode = mode;
  node.status.st_nlink = 1;
  ::clock_gettime(CLOCK_REALTIME, &node.status.st_mtim);
  return node;
}

fuse_entry_param EntryOf(const Node& node) {
  fuse_entry_param entry{};
  entry.ino = node.status.st_ino;
  entry.attr = node.status;
  entry.attr_timeout = entry.entry_timeout = kTrusted;
  return entry;
}

Node& MakeIn(fuse_ino_t parent, const char* name, mode_t mode) {
  Node& node = MakeNode(mode);
  At(parent).names[name] = node.status.st_ino;
  return node;
}

void LookUp(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const auto& names = At(parent).names;
  const auto found = names.find(name);
  if (found == names.end()) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  const fuse_entry_param entry = EntryOf(At(found->second));
  fuse_reply_entry(request, &entry);
}

void GetAttributes(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  fuse_reply_attr(request, &At(number).status, kTrusted);
}

void SetAttributes(fuse_req_t request, fuse_ino_t number, struct stat* wanted, int set, fuse_file_info*) {
  Node& node = At(number);
  if (set & FUSE_SET_ATTR_SIZE) {
    node.octets.resize(static_cast<size_t>(wanted->st_size));
    node.status.st_size = wanted->st_size;
  }
  if (set & FUSE_SET_ATTR_MODE) node.status.st_mode = wanted->st_mode;
  fuse_reply_attr(request, &node.status, kTrusted);
}

void MakeDirectory(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  const fuse_entry_param entry = EntryOf(MakeIn(parent, name, S_IFDIR | mode));
  fuse_reply_entry(request, &entry);
}

void Create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  const fuse_entry_param entry = EntryOf(MakeIn(parent, name, S_IFREG | mode));
  fuse_reply_create(request, &entry, info);
}

void Remove(fuse_req_t request, fuse_ino_t parent, const char* name) {
  fuse_reply_err(request, At(parent).names.erase(name) > 0 ? 0 : ENOENT);
}

void Rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t to_parent, const char* to, unsigned) {
  auto moved = At(parent).names.extract(name);
  if (moved.empty()) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  At(to_parent).names[to] = moved.mapped();
  fuse_reply_err(request, 0);
}

void Open(fuse_req_t request, fuse_ino_t, fuse_file_info* info) { fuse_reply_open(request, info); }
void Done(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, 0); }
void Synced(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) { fuse_reply_err(request, 0); }
void HasNoAttribute(fuse_req_t request, fuse_ino_t, const char*, size_t) { fuse_reply_err(request, ENODATA); }

void Read(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, fuse_file_info*) {
  std::vector<char>& octets = At(number).octets;
  const size_t from = std::min(static_cast<size_t>(offset), octets.size());
  fuse_bufvec data = FUSE_BUFVEC_INIT(std::min(size, octets.size() - from));
  data.buf[0].mem = octets.data() + from;
  fuse_reply_data(request, &data, FUSE_BUF_SPLICE_MOVE);
}

void Write(fuse_req_t request, fuse_ino_t number, const char* octets, size_t size, off_t offset, fuse_file_info*) {
  Node& node = At(number);
  const size_t end = static_cast<size_t>(offset) + size;
  if (end > node.octets.size()) {
    node.octets.resize(end);
    node.status.st_size = static_cast<off_t>(end);
  }
  std::memcpy(node.octets.data() + offset, octets, size);
  fuse_reply_write(request, size);
}

// The kernel's offset of an entry is its place among the names.
void List(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, fuse_file_info*) {
  const auto& names = At(number).names;
  std::vector<char> reply(size);
  size_t used = 0;
  off_t place = 0;
  for (const auto& [name, each] : names) {
    if (place++ < offset) continue;
    const fuse_entry_param entry = EntryOf(At(each));
    const size_t length =
        fuse_add_direntry_plus(request, reply.data() + used, size - used, name.c_str(), &entry, place);
    if (length > size - used) break;
    used += length;
  }
  fuse_reply_buf(request, reply.data(), used);
}

void Begin(void*, fuse_conn_info* connection) {
  connection->max_write = connection->max_read = connection->max_readahead = kLongest;
  connection->want |= FUSE_CAP_READDIRPLUS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: fuse_bound DIR\n", stderr);
    return 2;
  }
  MakeNode(S_IFDIR | 0755);
  fuse_lowlevel_ops ops{};
  ops.init = Begin;
  ops.lookup = LookUp;
  ops.getattr = GetAttributes;
  ops.setattr = SetAttributes;
  ops.mkdir = MakeDirectory;
  ops.create = Create;
  ops.unlink = ops.rmdir = Remove;
  ops.rename = Rename;
  ops.open = ops.opendir = Open;
  ops.flush = ops.release = ops.releasedir = Done;
  ops.fsync = Synced;
  ops.getxattr = HasNoAttribute;
  ops.read = Read;
  ops.write = Write;
  ops.readdirplus = List;
  const std::string longest = "max_read=" + std::to_string(kLongest);
  const char* words[] = {argv[0], "-o", "fsname=fuse_bound", "-o", longest.c_str()};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(std::size(words)), const_cast<char**>(words));
  fuse_session* const session = fuse_session_new(&arguments, &ops, sizeof ops, nullptr);
  if (!session || fuse_set_signal_handlers(session) != 0 || fuse_session_mount(session, argv[1]) != 0) return 1;
  fuse_session_loop(session);
  fuse_session_unmount(session);
  fuse_remove_signal_handlers(session);
  fuse_session_destroy(session);
  return 0;
}
