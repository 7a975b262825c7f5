import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { Camera } from "../../../src/draw/map/camera";
import { between, clampView, fitView, panBy, readView, reveal, toMap, toWindow, writeView, zoomAt, zoomLimits, type MapView } from "../../../src/draw/map/zoom";

const size = fc.record({ width: fc.integer({ min: 50, max: 9000 }), height: fc.integer({ min: 50, max: 9000 }) });
const window = fc.record({ width: fc.integer({ min: 200, max: 3000 }), height: fc.integer({ min: 200, max: 2000 }) });
const point = fc.record({ x: fc.integer({ min: 0, max: 2000 }), y: fc.integer({ min: 0, max: 1500 }) });
const factor = fc.double({ min: 0.1, max: 10, noNaN: true });

/** A view at the edge of what is allowed is moved a little when its rounded scale is smaller. */
const clamped = (view: MapView, again: MapView): number => (Math.abs(view.scale - again.scale) / again.scale) * 1000;

describe("zoom of the map", () => {
  it("keeps the point under the pointer", () => {
    fc.assert(
      fc.property(size, window, point, fc.array(factor, { maxLength: 8 }), (map, room, at, factors) => {
        let view = fitView(map, room);
        const before = toMap(view, at);
        for (const each of factors) view = zoomAt(view, at, each, zoomLimits(map, room));
        const after = toMap(view, at);
        expect(after.x).toBeCloseTo(before.x, 4);
        expect(after.y).toBeCloseTo(before.y, 4);
      }),
    );
  });

  it("stays within its limits", () => {
    fc.assert(
      fc.property(size, window, point, factor, (map, room, at, each) => {
        const limits = zoomLimits(map, room);
        const { scale } = zoomAt(fitView(map, room), at, each, limits);
        expect(scale).toBeGreaterThanOrEqual(limits.least);
        expect(scale).toBeLessThanOrEqual(limits.most);
      }),
    );
  });

  it("the fitted map is wholly in the window", () => {
    fc.assert(
      fc.property(size, window, (map, room) => {
        const view = fitView(map, room);
        const end = toWindow(view, { x: map.width, y: map.height });
        expect(view.x).toBeGreaterThanOrEqual(0);
        expect(view.y).toBeGreaterThanOrEqual(0);
        expect(end.x).toBeLessThanOrEqual(room.width + 1e-6);
        expect(end.y).toBeLessThanOrEqual(room.height + 1e-6);
      }),
    );
  });

  it("a part of the map stays in the window however far it is moved", () => {
    const far = fc.integer({ min: -50_000, max: 50_000 });
    fc.assert(
      fc.property(size, window, far, far, (map, room, dx, dy) => {
        const view = clampView(panBy(fitView(map, room), dx, dy), map, room);
        const end = toWindow(view, { x: map.width, y: map.height });
        expect(end.x > 0 && end.y > 0 && view.x < room.width && view.y < room.height).toBe(true);
      }),
    );
  });

  it("a view that is written is read as the same view, also in another window", () => {
    fc.assert(
      fc.property(size, window, point, fc.double({ min: 1.2, max: 3, noNaN: true }), (map, room, at, each) => {
        const view = clampView(zoomAt(fitView(map, room), at, each, zoomLimits(map, room)), map, room);
        const text = writeView(view, map, room);
        if (text === undefined) return;
        const again = readView(text, map, room);
        expect(again?.scale).toBeCloseTo(view.scale, 1);
        const [centre, same] = [view, again ?? view].map((each) => toMap(each, { x: room.width / 2, y: room.height / 2 }));
        expect(Math.abs((centre?.x ?? 0) - (same?.x ?? 0))).toBeLessThanOrEqual(0.001 * map.width + 0.001 * (room.width / view.scale) + clamped(view, again ?? view));
      }),
    );
    const [map, room] = [{ width: 100, height: 100 }, { width: 400, height: 400 }];
    expect(writeView(fitView(map, room), map, room)).toBeUndefined();
    for (const wrong of [undefined, "", "1,2", "a,b,c", "0,1,1", "-1,0,0"]) expect(readView(wrong, map, room)).toBeUndefined();
  });

  it("a node is revealed with the smallest move", () => {
    const room = { width: 400, height: 300 };
    const view = { scale: 1, x: 0, y: 0 };
    expect(reveal(view, { x: 100, y: 100, width: 64, height: 32 }, room, 24)).toBe(view);
    expect(reveal(view, { x: 600, y: 100, width: 64, height: 32 }, room, 24)).toEqual({ scale: 1, x: -288, y: 0 });
    expect(reveal(view, { x: 100, y: -50, width: 64, height: 32 }, room, 24)).toEqual({ scale: 1, x: 0, y: 74 });
  });
});

describe("camera", () => {
  it("a glide ends where it was told to, and passes between", () => {
    const camera = new Camera();
    camera.setSizes({ width: 1000, height: 500 }, { width: 500, height: 400 });
    const from = camera.view;
    camera.glideZoom({ x: 100, y: 100 }, 2, 1000);
    const { target } = camera;
    camera.advance(1080);
    expect(camera.view.scale).toBeGreaterThan(from.scale);
    expect(camera.view.scale).toBeLessThan(target.scale);
    camera.advance(2000);
    expect(camera.view).toEqual(target);
    expect(camera.isGliding).toBe(false);
  });

  it("without motion a glide is a jump", () => {
    const camera = new Camera();
    camera.setSizes({ width: 1000, height: 500 }, { width: 500, height: 400 });
    camera.glideZoom({ x: 100, y: 100 }, 2, undefined);
    expect(camera.isGliding).toBe(false);
    expect(camera.write()).toMatch(/^2,/);
    camera.glideFit(undefined);
    expect(camera.write()).toBeUndefined();
  });

  it("the whole map stays whole when the window changes, and another view keeps its centre", () => {
    const map = { width: 1000, height: 500 };
    const camera = new Camera();
    camera.setSizes(map, { width: 500, height: 400 });
    camera.setSizes(map, { width: 900, height: 300 });
    expect(camera.view).toEqual(fitView(map, { width: 900, height: 300 }));
    camera.zoom({ x: 450, y: 150 }, 3);
    const before = toMap(camera.view, { x: 450, y: 150 });
    camera.setSizes(map, { width: 700, height: 500 });
    expect(toMap(camera.view, { x: 350, y: 250 }).x).toBeCloseTo(before.x, 0);
  });

  it("a view between two views begins and ends with them", () => {
    const [a, b] = [{ scale: 1, x: 0, y: 0 }, { scale: 4, x: -300, y: 50 }];
    expect(between(a, b, 0)).toEqual(a);
    expect(between(a, b, 1)).toEqual(b);
    expect(between(a, b, 0.5).scale).toBe(2);
  });
});
