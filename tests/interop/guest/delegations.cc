// A client gets delegations and caches its changes; another client must see them.
//
//     delegations MOUNT FOLDER-IN-IT SAME-FOLDER-OF-ANOTHER-CLIENT
//
// FOLDER has files of other users: read-0, read-1, ... each with the text "original".
#include <fstream>
#include <memory>
#include <sstream>

#include "check.h"

namespace guest {
namespace {

constexpr const char* kOriginal = "original";

// Counts a client's operations of one kind, from /proc/self/mountstats, which lists them by mount and operation.
class Counts {
 public:
  explicit Counts(std::string mount) : mount_(std::move(mount)) {}

  uint64_t Of(const std::string& operation) const {
    std::ifstream stats("/proc/self/mountstats");
    bool here = false;
    for (std::string line; std::getline(stats, line);) {
      if (line.starts_with("device ")) here = line.find(" mounted on " + mount_ + " ") != std::string::npos;
      std::istringstream words(line);
      std::string name;
      uint64_t count = 0;
      if (here && words >> name >> count && name == operation + ":") return count;
    }
    Fail("no " + operation + " among the statistics of " + mount_);
  }

 private:
  std::string mount_;
};

class Scene {
 public:
  Scene(std::string mount, std::string ours, std::string theirs)
      : counts_(std::move(mount)), ours_(std::move(ours)), theirs_(std::move(theirs)) {}

  // `run` makes the other client conflict with `expected` delegations.
  void Play(const char* name, uint64_t expected, auto&& run) {
    const uint64_t before = counts_.Of("DELEGRETURN");
    run();
    const uint64_t returned = counts_.Of("DELEGRETURN") - before;
    std::printf("delegations: %s, %llu returned\n", name, static_cast<unsigned long long>(returned));
    Check(returned >= expected, std::string("no delegation was in the way of: ") + name);
  }

  std::string Ours(const std::string& name) const { return ours_ + "/" + name; }
  std::string Theirs(const std::string& name) const { return theirs_ + "/" + name; }

  // Opening it again costs no call to the server, so the client has a delegation.
  void CheckDelegated(const std::string& name, int flags) const {
    const uint64_t before = counts_.Of("OPEN");
    for (int each = 0; each < 5; ++each) File(Ours(name), flags);
    Check(counts_.Of("OPEN") == before, name + " is not delegated");
  }

 private:
  Counts counts_;
  std::string ours_;
  std::string theirs_;
};

std::string Text(const std::string& path) { return File(path, O_RDONLY).ReadCached(); }

off_t SizeOf(const std::string& path) {
  struct stat status;
  Check(stat(path.c_str(), &status) == 0, "stat " + path);
  return status.st_size;
}

// Opens a file first: an open gets the server's attributes, whereas stat() may return cached ones.
struct stat Opened(const std::string& path) {
  const File file(path, O_RDONLY);
  struct stat status;
  Check(fstat(file.fd(), &status) == 0, "fstat " + path);
  return status;
}

void Reading(Scene& scene) {
  // Version 4.0: an owner gets no delegation before its first open is confirmed.
  Text(scene.Ours("read-0"));
  scene.Play("a reader, and another reader", 0, [&] {
    Check(Text(scene.Ours("read-0")) == kOriginal, "what the host wrote");
    scene.CheckDelegated("read-0", O_RDONLY);
    Check(Text(scene.Theirs("read-0")) == kOriginal, "what the host wrote, for the other client");
    scene.CheckDelegated("read-0", O_RDONLY);
  });
  scene.Play("a reader, then a writer", 1, [&] {
    Check(Text(scene.Ours("read-1")) == kOriginal, "what the host wrote");
    scene.CheckDelegated("read-1", O_RDONLY);
    File(scene.Theirs("read-1"), O_WRONLY).Write("rewritten by the other one", 0);
    Check(Text(scene.Ours("read-1")) == "rewritten by the other one", "what the other client wrote");
  });
  scene.Play("a reader that stays, then a writer", 1, [&] {
    const File reader(scene.Ours("read-2"), O_RDONLY);
    Check(reader.ReadCached() == kOriginal, "what the host wrote");
    File(scene.Theirs("read-2"), O_WRONLY | O_TRUNC).Write("shorter", 0);
    Check(Text(scene.Ours("read-2")) == "shorter", "what the other client wrote");
    Check(reader.ReadAll() == "shorter", "through what had been open all the time");
  });
  scene.Play("a reader, then one that removes", 1, [&] {
    const File reader(scene.Ours("read-3"), O_RDONLY);
    Check(unlink(scene.Theirs("read-3").c_str()) == 0, "unlink");
    Check(reader.ReadAll() == kOriginal, "what is removed stays for who has it open");
  });
  scene.Play("a reader, then one that renames another file over it", 1, [&] {
    Check(Text(scene.Ours("read-4")) == kOriginal, "what the host wrote");
    File(scene.Theirs("new"), O_WRONLY | O_CREAT).Write("new", 0);
    Check(rename(scene.Theirs("new").c_str(), scene.Theirs("read-4").c_str()) == 0, "rename over");
    Check(Text(scene.Ours("read-4")) == "new", "the file that has the name now");
  });
  scene.Play("a reader, then one that changes the mode", 1, [&] {
    const File reader(scene.Ours("read-5"), O_RDONLY);
    Check(chmod(scene.Theirs("read-5").c_str(), 0600) == 0, "chmod");
    Check((Opened(scene.Ours("read-5")).st_mode & 07777) == 0600, "the new mode");
  });
}

// Linux returns a delegation without sending the cached data of an open file; it sends the data on fsync and close. So
// only the test of the size uses unsent data: the server asks the writer for the size.
void Writing(Scene& scene) {
  Random random(1);
  const std::string data = random.Octets(300'001);
  const auto written = [&](const std::string& name) {
    auto writer = std::make_unique<File>(scene.Ours(name), O_RDWR | O_CREAT);
    writer->Write(data, 0);
    writer->Sync();
    scene.CheckDelegated(name, O_RDWR);
    return writer;
  };
  scene.Play("a writer, then a reader", 1, [&] {
    const auto writer = written("write-0");
    Check(Text(scene.Theirs("write-0")) == data, "what was written under the delegation");
    writer->Write("again", 100'000);
    writer->Sync();
    Check(Text(scene.Theirs("write-0")).substr(100'000, 5) == "again", "what was written after the recall");
  });
  scene.Play("a writer, then one that asks for the size", 0, [&] {
    File writer(scene.Ours("write-1"), O_RDWR | O_CREAT);
    writer.Write(data, 0);
    scene.CheckDelegated("write-1", O_RDWR);
    Check(SizeOf(scene.Theirs("write-1")) == off_t(data.size()), "a size that only the writer knows");
  });
  scene.Play("a writer, then a writer", 1, [&] {
    const auto writer = written("write-2");
    File(scene.Theirs("write-2"), O_WRONLY).Write("theirs", 7);
    std::string wanted = data;
    wanted.replace(7, 6, "theirs");
    Check(Text(scene.Theirs("write-2")) == wanted, "both");
    writer->Close();
    Check(Text(scene.Ours("write-2")) == wanted, "both, for the first");
  });
  scene.Play("a writer, then one that cuts off", 1, [&] {
    const auto writer = written("write-3");
    Check(truncate(scene.Theirs("write-3").c_str(), 1000) == 0, "truncate");
    Check(Text(scene.Theirs("write-3")) == data.substr(0, 1000), "what is left");
    writer->Close();
    Check(Text(scene.Ours("write-3")) == data.substr(0, 1000), "what is left, for the first");
  });
  scene.Play("a writer, then one that removes", 1, [&] {
    const auto writer = written("write-4");
    Check(unlink(scene.Theirs("write-4").c_str()) == 0, "unlink");
    Check(writer->ReadAll() == data, "what is removed stays for who has it open");
  });
  scene.Play("a writer, then one that links", 1, [&] {
    const auto writer = written("write-5");
    Check(link(scene.Theirs("write-5").c_str(), scene.Theirs("linked").c_str()) == 0, "link");
    Check(Text(scene.Theirs("linked")) == data, "under the other name");
    Check(Opened(scene.Ours("write-5")).st_nlink == 2, "two names");
  });
}

}  // namespace
}  // namespace guest

int main(int count, char** arguments) {
  if (count != 4) return 2;
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  guest::Scene scene(arguments[1], arguments[2], arguments[3]);
  guest::Reading(scene);
  guest::Writing(scene);
  return 0;
}
