//! One plain loop, compiled for each instruction set; the best one the machine has is called.

/// Defines a function whose body is compiled for AVX-512, for AVX2 with FMA, and for the target's baseline.
///
/// The body is ordinary Rust over slices, which the compiler vectorises. It may use only operations that round the same
/// everywhere (`+ - * /`, `sqrt`, `mul_add`), and the compiler never reorders floating-point sums: so every variant gives
/// the same bits, and a checkpoint may move between machines.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$meta])*
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "calls code compiled for an instruction set that was just detected")
        )]
        $vis fn $name($($arg: $kind),*) $(-> $out)? {
            #[inline(always)]
            fn portable($($arg: $kind),*) $(-> $out)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
                fn avx512($($arg: $kind),*) $(-> $out)? {
                    portable($($arg),*)
                }

                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $kind),*) $(-> $out)? {
                    portable($($arg),*)
                }

                match $crate::cpu::vectorized::InstructionSet::detect() {
                    // SAFETY: the machine has the features that `avx512` was compiled for.
                    $crate::cpu::vectorized::InstructionSet::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: the machine has the features that `avx2` was compiled for.
                    $crate::cpu::vectorized::InstructionSet::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::cpu::vectorized::InstructionSet::Baseline => {}
                }
            }
            portable($($arg),*)
        }
    };
}

pub(crate) use vectorized;

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstructionSet {
    /// 32 registers of 16 numbers.
    Avx512,
    /// 16 registers of 8 numbers.
    Avx2,
    /// What every machine of the target has.
    Baseline,
}

impl InstructionSet {
    /// Asks the machine; the standard library remembers the answer.
    #[inline]
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                    return Self::Avx512;
                }
                return Self::Avx2;
            }
        }
        Self::Baseline
    }
}
