// Mapped files: data that is written through a mapping must be in the file, also for the other client.
//
//     mapped FOLDER SAME-FOLDER-OF-ANOTHER-CLIENT
//
// Leaves the file "mapped", and a copy of its expected contents in /tmp/mapped.
#include <sys/mman.h>

#include "check.h"

namespace guest {
namespace {

constexpr size_t kSize = (size_t{1} << 20) + 123;

class Mapping {
 public:
  Mapping(const File& file, size_t size) : size_(size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
    Check(memory != MAP_FAILED, "mmap");
    data_ = static_cast<char*>(memory);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(data_, size_); }

  void Put(size_t at, const std::string& octets) { octets.copy(data_ + at, octets.size()); }
  void Sync() const { Check(msync(data_, size_, MS_SYNC) == 0, "msync"); }
  std::string_view data() const { return {data_, size_}; }

 private:
  char* data_;
  size_t size_;
};

int Run(const std::string& ours, const std::string& theirs) {
  Random random(3);
  std::string wanted = random.Octets(kSize);
  const File file(ours + "/mapped", O_RDWR | O_CREAT | O_EXCL);
  Check(ftruncate(file.fd(), off_t(kSize)) == 0, "ftruncate");
  Mapping mapping(file, kSize);
  mapping.Put(0, wanted);
  mapping.Sync();
  Check(File(theirs + "/mapped", O_RDONLY).ReadCached() == wanted, "what was written by msync, for the other client");

  // The clients write a few octets of a few pages in turn. After getting a lock, a client must revalidate its cache,
  // including mappings.
  const File other(theirs + "/mapped", O_RDWR);
  Mapping others(other, kSize);
  for (int round = 0; round < 6; ++round) {
    const bool is_ours = round % 2 == 0;
    const File& writer = is_ours ? file : other;
    Mapping& written = is_ours ? mapping : others;
    Check(writer.Lock(F_SETLKW, F_WRLCK, 0, 0) == 0, "lock");
    Check(written.data() == wanted, "what the other client wrote, in round " + std::to_string(round));
    for (int each = 0; each < 20; ++each) {
      const std::string octets = random.Octets(random.Below(100) + 1);
      const size_t at = random.Below(kSize - octets.size());
      written.Put(at, octets);
      wanted.replace(at, octets.size(), octets);
    }
    written.Sync();
    Check(writer.Lock(F_SETLK, F_UNLCK, 0, 0) == 0, "unlock");
  }
  File("/tmp/mapped", O_WRONLY | O_CREAT | O_EXCL).Append(wanted);
  std::printf("mapped: good\n");
  return 0;
}

}  // namespace
}  // namespace guest

int main(int count, char** arguments) { return count == 3 ? guest::Run(arguments[1], arguments[2]) : 2; }
