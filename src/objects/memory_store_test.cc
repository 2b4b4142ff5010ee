#include "objects/memory_store.h"

#include "objects/store_suite.h"

namespace penstock::objects::suite {

PENSTOCK_OBJECT_STORE_SUITE(Memory,
                            testing::Values(Parameter{"Memory", [] { return std::make_shared<MemoryStore>(); }}));

}  // namespace penstock::objects::suite
