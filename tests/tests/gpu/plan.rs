//! A plan of the simulated device: what is bound to each slot, and what a run queues.

use crate::device::{Op, Run, Sim};
use forkcast_engines::gpu::device::{Address, Binding, DeviceError, Program, Result, Slot};
use std::collections::BTreeMap;

/// A loaded plan.
#[derive(Debug)]
pub(crate) struct Plan {
    stage: String,
    number: usize,
    bindings: Vec<Binding>,
    slots: BTreeMap<Slot, Bound>,
    now: Option<Slot>,
}

#[derive(Clone, Debug, Default)]
struct Bound {
    shapes: BTreeMap<String, Vec<usize>>,
    addresses: BTreeMap<String, Address>,
}

impl Plan {
    pub(crate) fn new(stage: &str, number: usize, bindings: Vec<Binding>) -> Self {
        Self {
            stage: stage.to_owned(),
            number,
            bindings,
            slots: BTreeMap::new(),
            now: None,
        }
    }

    fn bound(&mut self) -> Result<&mut Bound> {
        let now = self.now;
        now.and_then(|slot| self.slots.get_mut(&slot))
            .ok_or_else(|| DeviceError("no slot is selected".to_owned()))
    }
}

impl Program<Sim> for Plan {
    fn bindings(&self) -> Result<Vec<Binding>> {
        Ok(self.bindings.clone())
    }

    fn select(&mut self, _: &mut Sim, slot: Slot) -> Result<()> {
        self.slots.entry(slot).or_default();
        self.now = Some(slot);
        Ok(())
    }

    fn set_shape(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        self.bound()?.shapes.insert(name.to_owned(), shape.to_vec());
        Ok(())
    }

    fn set_address(&mut self, name: &str, at: Address) -> Result<()> {
        if at.0 == 0 || !at.0.is_multiple_of(256) {
            return refuse(format!("{name:?} is bound to {:#x}", at.0));
        }
        self.bound()?.addresses.insert(name.to_owned(), at);
        Ok(())
    }

    fn enqueue(&mut self, device: &mut Sim) -> Result<()> {
        let slot = self.now.unwrap_or(Slot {
            profile: 0,
            variant: 0,
            exact: true,
        });
        let (stage, program, bindings) = (self.stage.clone(), self.number, self.bindings.clone());
        let bound = self.bound()?;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for binding in &bindings {
            let name = binding.name.clone();
            let Some(at) = bound.addresses.get(&name) else {
                return refuse(format!("{stage}: {name:?} has no address"));
            };
            match (binding.input, bound.shapes.get(&name)) {
                (false, _) => outputs.push((name, *at)),
                (true, Some(shape)) => inputs.push((name, *at, shape.clone())),
                (true, None) => return refuse(format!("{stage}: {name:?} has no shape")),
            }
        }
        let mut log = device.log.borrow_mut();
        let list = if device.recording.is_some() {
            &mut log.captured
        } else {
            &mut log.eager
        };
        list.push((stage.clone(), slot));
        drop(log);
        device.put(Op::Run(Run {
            program,
            stage,
            slot,
            inputs,
            outputs,
        }));
        Ok(())
    }

    fn forget(&mut self) {
        self.slots.clear();
        self.now = None;
    }
}

fn refuse<T>(text: String) -> Result<T> {
    Err(DeviceError(text))
}
