// fault.cuh: kernels that are wrong on purpose, one fault each, to see that the emulator notices.
// Place      Compiled for the host only. Used by src/device/emu/test/fault.rs.
#pragma once
#include "common/portable.cuh"

struct FaultParams {
    float* out;
    u32 n_out, pad;
};

/// Reads what another warp writes, without a barrier between.
DEVICE void fault_no_barrier(const FaultParams& p) {
    float* shared = reinterpret_cast<float*>(dev::shared());
    dev::store(shared + dev::thread(), static_cast<float>(dev::thread()));
    dev::store(p.out + dev::thread(), dev::load(shared + (dev::thread() + 32) % 64));
}

/// The same with the barrier: the pair shows that the difference is the barrier's.
DEVICE void fault_none(const FaultParams& p) {
    float* shared = reinterpret_cast<float*>(dev::shared());
    dev::store(shared + dev::thread(), static_cast<float>(dev::thread()));
    dev::block_sync();
    dev::store(p.out + dev::thread(), dev::load(shared + (dev::thread() + 32) % 64));
}

/// Half of the lanes miss a collective operation.
DEVICE void fault_half_warp(const FaultParams& p) {
    if (dev::lane() < 16) dev::store(p.out + dev::thread(), dev::shuffle_xor(1.0f, 1));
}

/// Half of the threads have gone when the others come to the barrier.
DEVICE void fault_half_block(const FaultParams& p) {
    if (dev::thread() >= 32) return;
    dev::block_sync();
    dev::store(p.out + dev::thread(), 1.0f);
}

/// Reads a copy before it is waited for, and waits afterwards.
DEVICE void fault_early_read(const FaultParams& p) {
    u8* shared = dev::shared() + 16 * dev::thread();
    dev::copy_async16(shared, p.out + 4 * (dev::thread() % 16), true);
    dev::copy_commit();
    const float early = dev::load(reinterpret_cast<const float*>(shared));
    dev::copy_wait<0>();
    dev::store(p.out + dev::thread(), early);
}

/// Never waits for a copy.
DEVICE void fault_no_wait(const FaultParams& p) {
    dev::copy_async16(dev::shared() + 16 * dev::thread(), p.out, true);
    dev::copy_commit();
}

/// Writes one element past the end of shared memory.
DEVICE void fault_past_shared(const FaultParams& p) {
    if (dev::thread() == 63) dev::store(reinterpret_cast<float*>(dev::shared()) + p.n_out, 1.0f);
}
