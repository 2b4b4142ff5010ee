// Functions that applications expect of a local file system, besides reading and writing.
//
//     files FOLDER
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <array>
#include <memory>

#include "check.h"

namespace guest {
namespace {

struct stat Status(const std::string& path) {
  struct stat status;
  Check(lstat(path.c_str(), &status) == 0, "lstat " + path);
  return status;
}

std::string Text(const std::string& path) { return File(path, O_RDONLY).ReadAll(); }

void Make(const std::string& path, const std::string& text) { File(path, O_WRONLY | O_CREAT | O_TRUNC).Append(text); }

// An open file stays usable after it is unlinked, and after another file gets its name.
void OpenWhileGone(const std::string& folder) {
  Make(folder + "/gone", "gone");
  const File gone(folder + "/gone", O_RDWR);
  Check(unlink((folder + "/gone").c_str()) == 0, "unlink what is open");
  gone.Write("still ", 4);
  Check(gone.ReadAll() == "gonestill ", "what is unlinked is written and read");

  Make(folder + "/old", "old");
  Make(folder + "/new", "new");
  const File old(folder + "/old", O_RDWR);
  Check(rename((folder + "/new").c_str(), (folder + "/old").c_str()) == 0, "rename over what is open");
  Check(Text(folder + "/old") == "new", "the name");
  old.Write("er", 3);
  Check(old.ReadAll() == "older", "what had the name");
  Check(Text(folder + "/old") == "new", "the name, again");
}

// Octets far from each other, with a hole between them.
void Sparse(const std::string& folder) {
  constexpr off_t kFar = off_t{5} << 30;
  const File file(folder + "/sparse", O_RDWR | O_CREAT);
  file.Write("near", 0);
  file.Write("far", kFar);
  file.Sync();
  Check(Status(folder + "/sparse").st_size == kFar + 3, "the size");
  Check(Status(folder + "/sparse").st_blocks < 1000, "what is not there takes no room");
  const off_t hole = lseek(file.fd(), 0, SEEK_HOLE);
  Check(hole >= 4 && hole <= off_t{1} << 20, "where the hole begins: " + std::to_string(hole));
  const off_t data = lseek(file.fd(), hole, SEEK_DATA);
  Check(data > hole && data <= kFar, "where it ends: " + std::to_string(data));
  Check(lseek(file.fd(), kFar, SEEK_HOLE) == kFar + 3, "the last hole is behind the end");
  Check(lseek(file.fd(), kFar + 3, SEEK_DATA) < 0 && errno == ENXIO, "there is nothing behind the end");
}

void CopiedByTheServer(const std::string& folder) {
  Random random(4);
  const std::string data = random.Octets(3'000'001);
  Make(folder + "/source", data);
  const File source(folder + "/source", O_RDWR);
  const File target(folder + "/target", O_RDWR | O_CREAT);
  std::string wanted(10'000, '\0');
  for (off_t from = 1234, to = 10'000; from < off_t(data.size());) {
    const ssize_t copied = copy_file_range(source.fd(), &from, target.fd(), &to, data.size(), 0);
    Check(copied > 0, "copy_file_range");
  }
  wanted += data.substr(1234);
  Check(target.ReadAll() == wanted, "what was copied, to another offset");

  // Punching holes into the copy does not change its source.
  Check(fallocate(target.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 500'001, 1'000'000) == 0, "punch");
  wanted.replace(500'001, 1'000'000, 1'000'000, '\0');
  Check(target.ReadAll() == wanted, "the hole, octet by octet");
  Check(source.ReadAll() == data, "the source");
  Check(fallocate(target.fd(), 0, 0, 5'000'000) == 0 && Status(folder + "/target").st_size == 5'000'000, "more room");
}

void Attributes(const std::string& folder) {
  const std::string path = folder + "/attributes";
  Make(path, "");
  const std::string value = Random(5).Octets(1500);
  const auto set = [&](const char* name, const std::string& octets, int how) {
    return setxattr(path.c_str(), name, octets.data(), octets.size(), how);
  };
  Check(set("user.one", value, XATTR_CREATE) == 0, "make an attribute");
  Check(set("user.one", "", XATTR_CREATE) < 0 && errno == EEXIST, "make it again");
  Check(set("user.two", "2", XATTR_REPLACE) < 0 && errno == ENODATA, "replace what is not there");
  Check(set("user.two", "", 0) == 0, "an empty one");
  std::array<char, 5000> got;
  Check(getxattr(path.c_str(), "user.one", got.data(), got.size()) == 1500 && value == std::string(got.data(), 1500),
        "get");
  Check(getxattr(path.c_str(), "user.one", got.data(), 100) < 0 && errno == ERANGE, "no room for it");
  Check(getxattr(path.c_str(), "user.two", got.data(), got.size()) == 0, "get the empty one");
  Check(getxattr(path.c_str(), "user.three", got.data(), got.size()) < 0 && errno == ENODATA, "get what is not there");
  for (int each = 0; each < 20; ++each)
    Check(set(("user.many." + std::to_string(each)).c_str(), std::to_string(each), 0) == 0, "make many");
  const ssize_t length = listxattr(path.c_str(), got.data(), got.size());
  Check(length > 0, "list");
  size_t users = 0;
  for (const char* name = got.data(); name < got.data() + length; name += std::strlen(name) + 1)
    users += std::string_view(name).starts_with("user.");
  Check(users == 22, "all are listed: " + std::to_string(users));
  Check(removexattr(path.c_str(), "user.one") == 0, "remove");
  Check(removexattr(path.c_str(), "user.one") < 0 && errno == ENODATA, "remove again");
}

void Kinds(const std::string& folder) {
  Check(mkfifo((folder + "/fifo").c_str(), 0600) == 0 && S_ISFIFO(Status(folder + "/fifo").st_mode), "a fifo");
  Check(mknod((folder + "/null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0, "a device");
  Check(S_ISCHR(Status(folder + "/null").st_mode) && Status(folder + "/null").st_rdev == makedev(1, 3), "which device");
  const std::string target(1000, 'x');
  Check(symlink(target.c_str(), (folder + "/link").c_str()) == 0, "a long symbolic link");
  std::array<char, 2000> got;
  Check(readlink((folder + "/link").c_str(), got.data(), got.size()) == 1000 && target == std::string(got.data(), 1000),
        "where it leads");
  // A fifo is local to the client: its data does not go over the network.
  if (fork() == 0) {
    Make(folder + "/fifo", "through");
    _exit(0);
  }
  const int fifo = open((folder + "/fifo").c_str(), O_RDONLY);
  Check(fifo >= 0 && read(fifo, got.data(), got.size()) == 7 && close(fifo) == 0, "read from a fifo");
  wait(nullptr);
}

void Names(const std::string& folder) {
  const std::string longest(255, 'n');
  Make(folder + "/" + longest, "longest");
  Check(Text(folder + "/" + longest) == "longest", "a name of 255 octets");
  Check(open((folder + "/" + longest + "n").c_str(), O_RDONLY) < 0 && errno == ENAMETOOLONG, "a longer one");
  for (const char* name : {"with a blank", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "-", "...", "new\nline", "*?\\"}) {
    Make(folder + "/" + name, name);
    Check(Text(folder + "/" + name) == name, std::string("the name ") + name);
  }
  Check(mkdir((folder + "/full").c_str(), 0755) == 0, "mkdir");
  Make(folder + "/full/file", "");
  Check(rmdir((folder + "/full").c_str()) < 0 && errno == ENOTEMPTY, "rmdir of what is not empty");
  Check(rename(folder.c_str(), (folder + "/full/below").c_str()) < 0 && errno == EINVAL, "a folder into itself");
  Check(unlink((folder + "/full").c_str()) < 0 && errno == EISDIR, "unlink of a folder");
  Check(open((folder + "/full/file/below").c_str(), O_RDONLY) < 0 && errno == ENOTDIR, "below a file");
}

void Times(const std::string& folder) {
  const std::string path = folder + "/times";
  Make(path, "");
  const std::array<timespec, 2> times{{{1'000'000'000, 123'456'789}, {-1, 987'654'321}}};
  Check(utimensat(AT_FDCWD, path.c_str(), times.data(), 0) == 0, "set the times");
  const struct stat status = Status(path);
  Check(status.st_atim.tv_sec == 1'000'000'000 && status.st_atim.tv_nsec == 123'456'789, "the time of access");
  Check(status.st_mtim.tv_sec == -1 && status.st_mtim.tv_nsec == 987'654'321, "the time of change, before 1970");
  struct statvfs space;
  Check(
      statvfs(path.c_str(), &space) == 0 && space.f_blocks > 0 && space.f_bavail <= space.f_blocks && space.f_files > 0,
      "how much room there is");
}

// O_DIRECT: whole blocks, without the cache.
void Direct(const std::string& folder) {
  constexpr size_t kSize = 256 << 10;
  const std::unique_ptr<char, void (*)(void*)> memory(static_cast<char*>(std::aligned_alloc(4096, kSize)), std::free);
  const std::string data = Random(6).Octets(kSize);
  const File direct(folder + "/direct", O_RDWR | O_CREAT | O_DIRECT);
  data.copy(memory.get(), kSize);
  Check(pwrite(direct.fd(), memory.get(), kSize, 4096) == ssize_t(kSize), "write past the cache");
  std::memset(memory.get(), 0, kSize);
  Check(pread(direct.fd(), memory.get(), kSize, 4096) == ssize_t(kSize) && data == std::string(memory.get(), kSize),
        "read past the cache");
  Check(Text(folder + "/direct") == std::string(4096, '\0') + data, "read through the cache");
}

int Run(const std::string& folder) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  Check(mkdir(folder.c_str(), 0755) == 0, "mkdir " + folder);
  OpenWhileGone(folder);
  Sparse(folder);
  CopiedByTheServer(folder);
  Attributes(folder);
  Kinds(folder);
  Names(folder);
  Times(folder);
  Direct(folder);
  std::printf("files: good\n");
  return 0;
}

}  // namespace
}  // namespace guest

int main(int count, char** arguments) { return count == 2 ? guest::Run(arguments[1]) : 2; }
