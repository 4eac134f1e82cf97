//! Places labels beside their points, so that they cover neither each other nor what is drawn.

use crate::extras::svg::text_width;

pub(crate) const TEXT_SIZE: i32 = 11;
pub(crate) const LINE_HEIGHT: i32 = 13;

/// Distance of a label beside its point.
const BESIDE: i32 = 8;

/// Distances of a label from its point, nearest first. From the second on a line leads to the point.
const DISTANCES: [i32; 14] = [BESIDE, 18, 28, 40, 52, 66, 80, 100, 120, 145, 170, 200, 240, 300];

/// Something that no label may cover.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Obstacle {
    pub(crate) area: Rect,
    /// How much longer a leader may be to avoid crossing this, in steps of [`STEP`].
    pub(crate) crossing_cost: usize,
}

/// Crossing cost of a line, of a dot and of a label.
pub(crate) const LINE_COST: usize = 4;
pub(crate) const DOT_COST: usize = 40;
const LABEL_COST: usize = 60;
/// Cost of a label that has no room, and so covers something.
const OVERLAP_COST: usize = 1000;

/// Distance in pixels between two areas along a leader.
const STEP: i32 = 4;

/// Directions in hundredths, preferred first.
const DIRECTIONS: [(i32, i32); 16] = [
    (100, 0),
    (-100, 0),
    (92, -38),
    (92, 38),
    (-92, -38),
    (-92, 38),
    (71, -71),
    (71, 71),
    (-71, -71),
    (-71, 71),
    (38, -92),
    (38, 92),
    (-38, -92),
    (-38, 92),
    (0, -100),
    (0, 100),
];

const ALIGNMENTS: [&str; 3] = ["start", "middle", "end"];

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rect {
    pub(crate) left: i32,
    pub(crate) top: i32,
    pub(crate) right: i32,
    pub(crate) bottom: i32,
}

/// Text that belongs to a point.
#[derive(Debug)]
pub(crate) struct LabelText {
    pub(crate) point: (i32, i32),
    pub(crate) lines: Vec<String>,
    pub(crate) is_bold: bool,
}

/// Place of a label.
#[derive(Debug)]
pub(crate) struct Label<'a> {
    pub(crate) text: &'a LabelText,
    pub(crate) area: Rect,
    pub(crate) anchor: Anchor,
    /// Line from the point to the label; `None` if they are next to each other.
    pub(crate) leader: Option<[(i32, i32); 2]>,
}

/// Horizontal place of the text within its area, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// `start`, `middle` or `end`.
    pub(crate) name: &'static str,
    pub(crate) x: i32,
}

/// A possible place of a label.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    area: Rect,
    anchor: Anchor,
    leader: Option<[(i32, i32); 2]>,
}

impl Rect {
    pub(crate) fn around((x, y): (i32, i32), radius: i32) -> Self {
        Self { left: x - radius, top: y - radius, right: x + radius, bottom: y + radius }
    }

    /// Returns the rectangle with these opposite corners.
    pub(crate) fn between(one: (i32, i32), other: (i32, i32)) -> Self {
        Self {
            left: one.0.min(other.0),
            top: one.1.min(other.1),
            right: one.0.max(other.0),
            bottom: one.1.max(other.1),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left <= other.right
            && other.left <= self.right
            && self.top <= other.bottom
            && other.top <= self.bottom
    }

    fn contains(&self, inner: &Self) -> bool {
        self.left <= inner.left
            && inner.right <= self.right
            && self.top <= inner.top
            && inner.bottom <= self.bottom
    }

    /// Returns the point of the rectangle that is nearest to `(x, y)`.
    fn nearest_to(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }
}

/// Key of an order in which labels are placed.
type SortKey = fn(&LabelText) -> (bool, i32);

/// Places the labels within `bounds`. Labels that are placed first are nearest to their points, so it tries several
/// orders and returns the best result.
pub(crate) fn place<'a>(
    texts: &'a [LabelText],
    obstacles: &[Obstacle],
    bounds: Rect,
) -> Vec<Label<'a>> {
    let keys: [SortKey; 6] = [
        |text| (!text.is_bold, text.point.0),
        |text| (!text.is_bold, -text.point.0),
        |text| (false, text.point.0),
        |text| (false, -text.point.0),
        |text| (false, text.point.1),
        |text| (false, -text.point.1),
    ];
    let results = keys.into_iter().map(|key| {
        let mut texts: Vec<_> = texts.iter().collect();
        texts.sort_by_key(|text| key(text));
        place_in_order(&texts, obstacles.to_vec(), bounds)
    });
    results.min_by_key(|(cost, _)| *cost).map(|(_, labels)| labels).unwrap_or_default()
}

/// Places the labels in this order. Returns them with their cost: the length of the leaders and what they cross.
fn place_in_order<'a>(
    texts: &[&'a LabelText],
    mut obstacles: Vec<Obstacle>,
    bounds: Rect,
) -> (usize, Vec<Label<'a>>) {
    let mut labels = Vec::new();
    let mut total: usize = 0;
    for text in texts {
        let has_room = |candidate: &Candidate| {
            bounds.contains(&candidate.area)
                && !obstacles.iter().any(|obstacle| candidate.area.overlaps(&obstacle.area))
        };
        let is_own = |obstacle: &Obstacle| obstacle.area.overlaps(&Rect::around(text.point, 0));
        let cost = |candidate: &Candidate| {
            let line = candidate.leader.map(along).unwrap_or_default();
            let crosses =
                |obstacle: &&Obstacle| line.iter().any(|place| place.overlaps(&obstacle.area));
            let foreign = obstacles.iter().filter(|obstacle| !is_own(obstacle)).filter(crosses);
            foreign.map(|obstacle| obstacle.crossing_cost).sum::<usize>() + line.len()
        };
        let all: Vec<_> = candidates(text).collect();
        let free = all.iter().filter(|candidate| has_room(candidate));
        let best = free.map(|one| (cost(one), one)).min_by_key(|(cost, _)| *cost);
        let best = best.or(all.first().map(|nearest| (OVERLAP_COST, nearest)));
        let Some((cost, Candidate { area, anchor, leader })) = best else { continue };
        total = total.saturating_add(cost);
        let (area, anchor, leader) = (*area, *anchor, *leader);
        obstacles.push(Obstacle { area, crossing_cost: LABEL_COST });
        let leader_areas = leader.map(along).unwrap_or_default().into_iter();
        obstacles.extend(leader_areas.map(|area| Obstacle { area, crossing_cost: LINE_COST }));
        labels.push(Label { text, area, anchor, leader });
    }
    (total, labels)
}

/// Returns the possible areas of a label, the best first, each with the line to its point.
fn candidates(text: &LabelText) -> impl Iterator<Item = Candidate> + use<> {
    let (x, y) = text.point;
    let percent = if text.is_bold { 110 } else { 103 };
    let width = text.lines.iter().map(|line| text_width(line, TEXT_SIZE) * percent / 100).max();
    let width = width.unwrap_or_default();
    let height = LINE_HEIGHT * i32::try_from(text.lines.len()).unwrap_or(1);
    let places = DISTANCES
        .into_iter()
        .flat_map(|distance| DIRECTIONS.map(|direction| (distance, direction)))
        .flat_map(|(distance, direction)| ALIGNMENTS.map(|name| (distance, direction, name)));
    places.filter_map(move |(distance, (right, down), name)| {
        let is_beside = distance == BESIDE;
        // Beside its point, a label extends away from it.
        let usual = match right {
            39.. => "start",
            ..=-39 => "end",
            _ => "middle",
        };
        if is_beside && name != usual {
            return None;
        }
        let (anchor_x, anchor_y) = (x + right * distance / 100, y + down * distance / 100);
        let left = match name {
            "start" => anchor_x,
            "end" => anchor_x - width,
            _ => anchor_x - width / 2,
        };
        let top = match down {
            72.. => anchor_y,
            ..=-72 => anchor_y - height,
            _ => anchor_y - height / 2,
        };
        let area = Rect { left, top, right: left + width, bottom: top + height };
        let leader = (!is_beside).then(|| [(x, y), area.nearest_to((x, y))]);
        Some(Candidate { area, anchor: Anchor { name, x: anchor_x }, leader })
    })
}

/// Returns small areas along a line, close enough that the line passes through nothing between them.
fn along([from, to]: [(i32, i32); 2]) -> Vec<Rect> {
    let length = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1));
    let steps = (i32::try_from(length).unwrap_or_default() / STEP).max(1);
    let at = |step: i32| {
        let coordinate = |from: i32, to: i32| from + (to - from) * step / steps;
        Rect::around((coordinate(from.0, to.0), coordinate(from.1, to.1)), STEP / 2)
    };
    (0..=steps).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_crowded_points_overlap_neither_each_other_nor_a_point() {
        let bounds = Rect { left: 0, top: 0, right: 800, bottom: 500 };
        let points: Vec<_> = (0..28)
            .map(|n| LabelText {
                point: (380 + n % 7 * 12, 100 + n / 7 * 12),
                lines: vec![format!("estimator, {n}")],
                is_bold: false,
            })
            .collect();
        let dots: Vec<_> = points.iter().map(|text| Rect::around(text.point, 4)).collect();
        let obstacle = |area: &Rect| Obstacle { area: *area, crossing_cost: DOT_COST };
        let labels = place(&points, &dots.iter().map(obstacle).collect::<Vec<_>>(), bounds);
        assert_eq!(labels.len(), points.len());
        for (index, label) in labels.iter().enumerate() {
            assert!(bounds.contains(&label.area), "{label:?}");
            assert!(!dots.iter().any(|dot| dot.overlaps(&label.area)), "{label:?}");
            let others = labels[index + 1..].iter();
            assert!(!others.clone().any(|other| other.area.overlaps(&label.area)), "{label:?}");
        }
    }

    #[test]
    fn lone_label_is_beside_its_point() {
        let bounds = Rect { left: 0, top: 0, right: 800, bottom: 500 };
        let text = LabelText { point: (100, 100), lines: vec!["ab".into()], is_bold: false };
        let texts = [text];
        let labels = place(&texts, &[], bounds);
        assert_eq!(labels[0].area, Rect { left: 108, top: 94, right: 120, bottom: 107 });
        assert_eq!(labels[0].anchor, Anchor { name: "start", x: 108 });
        assert_eq!(labels[0].leader, None);
    }
}
