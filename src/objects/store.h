// The objects in a pool of a storage cluster: what Penstock uses of RADOS, as an interface. It is implemented by the
// module penstock-ceph.so, and for tests in memory (memory_store.h).
//
// Any thread may call any method, and every method may block until the store's time limit. A method returns zero or a
// negative errno. After -ETIMEDOUT, a change may have been made, or may still be made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace penstock::objects {

// An object has content, and besides entries: a map from keys to values.
class Store {
 public:
  virtual ~Store() = default;

  struct Object {
    std::string content;
    uint64_t version = 0;  // another one after each change of the object; never zero
  };
  virtual int Read(const std::string& name, Object& object) = 0;
  // Compare-and-write: replaces the content if the object has this version. Zero: the object must not exist. Fails with
  // -ECANCELED otherwise.
  virtual int Replace(const std::string& name, uint64_t version, std::string_view content) = 0;
  // Fails with -ENOENT if there is no such object. Octets between the old end and `offset` become zeros.
  virtual int WriteAt(const std::string& name, uint64_t offset, ConstBytes octets) = 0;
  // Succeeds if there is no such object.
  virtual int Remove(const std::string& name) = 0;

  // Keys are printable. Fails with -ENOENT if there is no such object.
  virtual int SetEntry(const std::string& name, const std::string& key, std::string_view value) = 0;
  // Succeeds if there is no such object or entry.
  virtual int RemoveEntry(const std::string& name, const std::string& key) = 0;
  // An object that does not exist has no entries.
  virtual int ListEntries(const std::string& name, std::map<std::string, std::string>& entries) = 0;

  // The names of the objects that begin with `prefix`.
  virtual int ListNames(std::string_view prefix, std::vector<std::string>& names) = 0;
};

}  // namespace penstock::objects
