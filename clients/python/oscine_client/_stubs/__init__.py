"""Generated from the service's .proto files (`make proto`), in a descriptor pool of their own.

Any version of the service, whose stubs may differ, can thus be in the same process.
"""

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
